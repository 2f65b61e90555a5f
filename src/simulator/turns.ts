/** Longest time in milliseconds that a computation may hold the event loop before other requests get a turn. */
export const sliceMs = 1

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
