import { clockTime, duration } from './format.js'
import type { Live } from './live.js'

/** Beyond this the events that should come every second have stopped, whatever the browser thinks of the connection. */
const silenceMs = 12_000

/** What is wrong, in words, above everything else; nothing when all is well. */
export function Notices({ live, now }: { live: Live; now: number }) {
  const { status, isConnected, lastEventAt } = live
  const isSilent = lastEventAt !== null && now - lastEventAt > silenceMs
  const lines: { readonly level: 'bad' | 'warn'; readonly text: string }[] = []
  if (!isConnected || isSilent) {
    const since = lastEventAt === null ? '' : ` What you see is from ${clockTime(lastEventAt)} UTC`
    const ago = lastEventAt === null ? '' : `, ${duration(Math.max(1000, now - lastEventAt))} ago.`
    lines.push({ level: 'bad', text: `The recorder does not respond; trying again.${since}${ago}` })
  } else {
    for (const { message, isBlocking } of status?.problems ?? []) {
      lines.push({ level: isBlocking ? 'bad' : 'warn', text: message })
    }
  }
  return (
    <div class="notices" role="alert">
      {lines.map(({ level, text }) => (
        <p key={text} class={level}>
          {text}
        </p>
      ))}
    </div>
  )
}
