/** Environment of a program on a machine whose clock is ahead by so much. Its monotonic clock is right. */
export function shiftedClock(aheadMs: number): Readonly<Record<string, string>> {
  const code = `
    const RealDate = Date
    const now = () => RealDate.now() + ${aheadMs}
    globalThis.Date = new Proxy(RealDate, {
      construct: (target, parts) => Reflect.construct(target, parts.length === 0 ? [now()] : parts),
      get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
    })`
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` }
}
