import './streams.css'
import { streamTraits } from '../../market/stream.js'
import { sum } from '../../market/values.js'
import { grouped } from '../../runtime/text.js'
import type { Status, StreamStatus } from '../api/contract.js'
import { count, duration, perSecond } from './format.js'
import { Head, Panel } from './panel.js'
import { goByDisk } from '../byDisk.js'

/** Colour class of each state; empty if a state says nothing about health. */
const levelOf: Readonly<Record<StreamStatus['state'], string>> = {
  off: '',
  idle: '',
  starting: '',
  fresh: 'good',
  stale: 'bad',
  failing: 'bad',
}

const columns = [
  ['Stream'],
  ['State'],
  ['Covers', 'number'],
  ['Age / limit', 'age-head'],
  ['Rows/s, 5 minutes'],
  ...['Rows/s', 'Stored', 'Failed', 'Skipped', 'Rejected', 'Gaps'].map((name) => [name, 'number'] as const),
] as const

/** Shows how fresh each stream is, how fast it grows, and what failed. */
export function Streams({ status }: { status: Status | null }) {
  const isFolded = ({ state }: StreamStatus) => state === 'off' || state === 'idle'
  const folded = (status?.streams ?? []).filter(isFolded)
  const reasons = (status?.streams ?? []).flatMap(({ name, leftOut }) => {
    const text = leftOutText(leftOut)
    return text === '' ? [] : [{ name, text }]
  })
  return (
    <Panel id="streams" title="Streams">
      <div class="scroll" tabIndex={0} role="region" aria-label="Streams, table">
        <table class="streams">
          <Head columns={columns} />
          <tbody>
            {status?.streams
              .filter((stream) => !isFolded(stream))
              .map((stream) => (
                <Row key={stream.name} stream={stream} status={status} />
              ))}
          </tbody>
        </table>
      </div>
      {folded.length > 0 && (
        <details class="dim note">
          <summary>{folded.length} streams are off or have nothing to cover</summary>
          {folded.map(({ name, state }) => `${streamTraits[name].title}: ${state}`).join(' · ')}
        </details>
      )}
      {reasons.length > 0 && (
        <details class="dim note">
          <summary>Why instruments are left out</summary>
          <ul id="left-out">
            {reasons.map(({ name, text }) => (
              <li key={name}>{`${streamTraits[name].title}: ${text}.`}</li>
            ))}
          </ul>
        </details>
      )}
    </Panel>
  )
}

function Row({ stream, status }: { stream: StreamStatus; status: Status }) {
  const { name, state, targets, ageMs, freshnessLimitMs, rowsPerSecond, rowsWritten, history } = stream
  const leftOut = sum(Object.values(stream.leftOut))
  const gaps = status.gaps.filter((gap) => gap.stream === name && gap.state !== 'repaired')
  const isByDisk = state === 'fresh' && goByDisk(status)
  return (
    <tr data-stream={name} class={state}>
      <th scope="row">{streamTraits[name].title}</th>
      <td>
        {isByDisk ? (
          <span class="state warn" title="Its rows go to the disk until the database takes them. None is lost.">
            fresh<span>, by way of the disk</span>
          </span>
        ) : (
          <span class={`state ${levelOf[state]}`}>{state}</span>
        )}
      </td>
      <td class="number">
        {grouped(targets)}
        {leftOut > 0 && (
          <>
            {' '}
            <a href="#left-out" title="Why the others are left out">
              of {grouped(targets + leftOut)}
            </a>
          </>
        )}
      </td>
      <td class="age-cell">
        <Age ageMs={isByDisk ? null : ageMs} limitMs={freshnessLimitMs} />
      </td>
      <td>
        <Sparkline values={history} label={`${streamTraits[name].title}: rows per second over five minutes`} />
      </td>
      <td class="number">{perSecond(rowsPerSecond)}</td>
      <td class="number" title={grouped(rowsWritten)}>
        {count(rowsWritten)}
      </td>
      <Trouble value={stream.failures} what="requests failed since the start" />
      <Trouble value={stream.skippedPolls} what="polls were left out since the start" />
      <Trouble
        value={stream.rowsRejected + stream.rowsDropped}
        what="rows were not understood, or dropped, since the start"
      />
      <Trouble value={sum(gaps.map((gap) => gap.count))} what="gaps are open or lost" />
    </tr>
  )
}

/** Explains which instruments a stream leaves out. Empty if it leaves out none. */
function leftOutText({ kind, turnover, number, limits }: StreamStatus['leftOut']): string {
  const parts = [
    kind > 0 ? `${grouped(kind)} of kinds that select.kinds does not name` : '',
    turnover > 0 ? `${grouped(turnover)} with less turnover than select.minTurnover24h` : '',
    number > 0 ? `${grouped(number)} beyond the number that select.busiest names` : '',
    limits > 0
      ? `${grouped(limits)} for which the limits leave no room (npx market-recorder plan shows what fits)`
      : '',
  ].filter((part) => part !== '')
  return parts.join(', ')
}

function Age({ ageMs, limitMs }: { ageMs: number | null; limitMs: number }) {
  if (ageMs === null || limitMs === 0) return <span class="dim">–</span>
  const share = Math.min(1, ageMs / limitMs)
  return (
    <span class="age">
      <span class="figure">{duration(ageMs)}</span>
      <span class="bar" aria-hidden="true">
        <span class={share >= 1 ? 'bad' : share > 0.75 ? 'warn' : 'good'} style={{ width: `${share * 100}%` }} />
      </span>
      <span class="dim">{duration(limitMs)}</span>
    </span>
  )
}

function Trouble({ value, what }: { value: number; what: string }) {
  return (
    <td class={`number ${value > 0 ? 'trouble' : 'none'}`} title={`${grouped(value)} ${what}`}>
      {count(value)}
    </td>
  )
}

const width = 120
const height = 20
const slots = 60

/** Draws a small bar chart without axes, with the newest value at the right end. */
function Sparkline({ values, label }: { values: readonly number[]; label: string }) {
  const shown = values.slice(-slots)
  const highest = Math.max(...sortedWithoutOutlier(shown), 0.001)
  const step = width / slots
  return (
    <svg class="sparkline" viewBox={`0 0 ${width} ${height}`} role="img" aria-label={label}>
      {shown.map((value, index) => {
        const tall = value === 0 ? 0.5 : Math.max(1, Math.min(1, value / highest) * height)
        const x = (slots - shown.length + index) * step
        return (
          <rect
            key={index}
            x={x}
            y={height - tall}
            width={step - 0.4}
            height={tall}
            class={value === 0 ? 'zero' : ''}
          />
        )
      })}
    </svg>
  )
}

/** Drops the highest value. The rate of the first seconds after a start would flatten all other bars. */
function sortedWithoutOutlier(values: readonly number[]): number[] {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted.length > 3 ? sorted.slice(0, -1) : sorted
}
