import { clockTime, duration } from './format.js'
import type { Live } from './live.js'

/** Longest silence of a recorder that responds, milliseconds. Its events should come every second. */
const silenceMs = 12_000

/** Returns true if the page may be out of date because the recorder does not respond. */
export function isAway({ isConnected, lastEventAt }: Live, now: number): boolean {
  return !isConnected || (lastEventAt !== null && now - lastEventAt > silenceMs)
}

/** Describes current problems at the top of the page. Shows nothing when there are none. */
export function Notices({ live, now }: { live: Live; now: number }) {
  const { status, lastEventAt } = live
  const lines: { readonly level: 'bad' | 'warn'; readonly text: string }[] = []
  if (isAway(live, now)) {
    const since = lastEventAt === null ? '' : ` What you see is from ${clockTime(lastEventAt)} UTC`
    const ago = lastEventAt === null ? '' : `, ${duration(Math.max(1000, now - lastEventAt))} ago.`
    lines.push({ level: 'bad', text: `The recorder does not respond; trying again.${since}${ago}` })
  } else {
    // While the database is away the rest follows from it.
    const problems = status?.problems ?? []
    const ofDatabase = problems.filter(({ about }) => about === 'database')
    for (const { message, isBlocking } of status?.database.isReachable === false && ofDatabase.length > 0
      ? ofDatabase.slice(0, 1)
      : problems) {
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
