import './streams.css'
import { streamTraits } from '../../market/stream.js'
import type { Status, StreamStatus } from '../api/contract.js'
import { count, duration, exactCount, perSecond } from './format.js'
import { Panel, Sparkline } from './panel.js'

/** The colours of a state; none for one that says nothing of health. */
const levelOf: Readonly<Record<StreamStatus['state'], string>> = {
  off: '',
  idle: '',
  starting: '',
  fresh: 'good',
  stale: 'bad',
}

const columns = [
  ['Stream'],
  ['State'],
  ['Covers', 'number'],
  ['Age / limit', 'age-head'],
  ['Rows/s, 5 minutes'],
  ...['Rows/s', 'Stored', 'Failed', 'Skipped', 'Rejected', 'Gaps'].map((name) => [name, 'number'] as const),
] as const

/** Each stream with how fresh it is, how fast it grows and what went wrong. */
export function Streams({ status }: { status: Status | null }) {
  return (
    <Panel id="streams" title="Streams">
      <div class="scroll" tabIndex={0} role="region" aria-label="Streams, table">
        <table class="streams">
          <thead>
            <tr>
              {columns.map(([name, style]) => (
                <th key={name} scope="col" class={style}>
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {status?.streams.map((stream) => (
              <Row key={stream.name} stream={stream} />
            ))}
          </tbody>
        </table>
      </div>
      {status?.streams.map(({ name, leftOut }) => {
        const text = leftOutText(leftOut)
        return text !== '' && <p key={name} class="dim">{`${streamTraits[name].title}. ${text}.`}</p>
      })}
    </Panel>
  )
}

function Row({ stream }: { stream: StreamStatus }) {
  const { name, state, targets, ageMs, freshnessLimitMs, rowsPerSecond, rowsWritten, history } = stream
  return (
    <tr data-stream={name} class={state}>
      <th scope="row">{streamTraits[name].title}</th>
      <td>
        <span class={`state ${levelOf[state]}`}>{state}</span>
      </td>
      <td class="number" title={leftOutText(stream.leftOut)}>
        {exactCount(targets)}
      </td>
      <td class="age-cell">
        <Age ageMs={ageMs} limitMs={freshnessLimitMs} />
      </td>
      <td>
        <Sparkline values={history} label={`${streamTraits[name].title}: rows per second over five minutes`} />
      </td>
      <td class="number">{perSecond(rowsPerSecond)}</td>
      <td class="number" title={exactCount(rowsWritten)}>
        {count(rowsWritten)}
      </td>
      <Trouble value={stream.failures} what="requests failed" />
      <Trouble value={stream.skippedPolls} what="polls were left out" />
      <Trouble value={stream.rowsRejected + stream.rowsDropped} what="rows were not understood, or dropped" />
      <Trouble value={stream.gapsFound} what="gaps were found" />
    </tr>
  )
}

/** Why a stream covers no more than it does; empty when it leaves nobody out. */
function leftOutText({ kind, turnover, number, limits }: StreamStatus['leftOut']): string {
  const parts = [
    kind > 0 ? `${exactCount(kind)} of unselected kinds` : '',
    turnover > 0 ? `${exactCount(turnover)} with too little turnover` : '',
    number > 0 ? `${exactCount(number)} beyond the selected number` : '',
    limits > 0 ? `${exactCount(limits)} beyond the limits` : '',
  ].filter((part) => part !== '')
  return parts.length === 0 ? '' : `Left out: ${parts.join(', ')}`
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
    <td class={`number ${value > 0 ? 'trouble' : 'none'}`} title={`${exactCount(value)} ${what} since the start`}>
      {count(value)}
    </td>
  )
}
