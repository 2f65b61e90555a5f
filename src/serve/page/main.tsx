import { render } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { Calendar } from './calendar.js'
import { inWords } from '../../runtime/text.js'
import type { Status } from '../api/contract.js'
import { Header, titles } from './header.js'
import { Backfills, Incidents, isAway, Notices } from './problems.js'
import { Instrument } from './instrument.js'
import { eventsUrl, useLive, useResponse } from './loaded.js'
import { Market } from './market.js'
import { Command, Panel, useWindowEvent } from './panel.js'
import { Streams } from './streams.js'
import { Budget, Tiles } from './tiles.js'
import { type ChangeView, readView, type View, writeView } from './view.js'

function App() {
  const [view, change] = useView()
  const live = useLive(eventsUrl(view))
  const { status } = live
  const now = useNow()

  // Without an instrument in the address, the tab of one leads to the busiest. A new recorder has none for a moment.
  const busiest = useResponse('/api/instruments/busiest', view.symbol === null ? {} : null, { everyMs: 3000 })
  const { category = null, symbol = null } = view.symbol === null ? (busiest.response?.instruments[0] ?? {}) : view
  useEffect(() => {
    const subject = view.shows === 'instrument' ? view.symbol : view.shows === 'status' ? null : titles[view.shows]
    document.title = subject === null ? 'market-recorder' : `${subject} · market-recorder`
  }, [view.symbol, view.shows])

  return (
    <>
      <a class="skip" href="#main">
        Skip to the content
      </a>
      <Header live={live} now={now} view={{ ...view, category, symbol }} change={change} />
      <main id="main" class={isAway(live, now) ? 'away' : ''}>
        <Notices live={live} now={now} />
        {view.shows === 'market' && <Market view={view} change={change} now={now} />}
        {view.shows === 'coverage' && <Calendar view={view} change={change} />}
        {view.shows === 'api' && <Api />}
        {view.shows === 'instrument' && (
          <Instrument key={`${view.category} ${view.symbol}`} view={view} change={change} />
        )}
        {view.shows === 'status' && (
          <>
            <Tiles status={status} />
            <div class="columns status">
              <div class="stack">
                <Streams status={status} />
                <Incidents status={status} now={now} />
              </div>
              <div class="stack">
                <Budget status={status} />
                <Backfills status={status} />
              </div>
            </div>
          </>
        )}
      </main>
      <footer>
        <p class="running">
          {status !== null &&
            `up ${inWords(status.time - status.startedAt)} · egress ${status.egress}${others(status)} · v${status.version}`}
        </p>
        <p>
          <a href="/metrics">Metrics</a> All times are UTC. Charts by{' '}
          <a href="https://www.tradingview.com/" rel="noreferrer">
            TradingView Lightweight Charts™
          </a>
        </p>
      </footer>
    </>
  )
}

/** Number of recorders that share the work, as text. Empty for a single recorder. */
function others({ fleet: { recorders } }: Status): string {
  if (recorders.length < 2) return ''
  const present = recorders.filter(({ state }) => state === 'recording').length
  return present === recorders.length
    ? `, one of ${present} recorders`
    : `, ${present} of ${recorders.length} recorders active`
}

/** Returns this machine's time, updated once a second. */
function useNow(): number {
  const [now, setNow] = useState(Date.now)
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1000)
    return () => clearInterval(timer)
  }, [])
  return now
}

function useView(): [View, ChangeView] {
  const [view, setView] = useState(() => readView(location.search))
  useWindowEvent('popstate', () => setView(readView(location.search)))
  const change: ChangeView = (part, how = 'push') => {
    // Reads the view from the address, not from the last render. Otherwise two quick changes would undo each other.
    const next = { ...readView(location.search), ...part }
    const url = writeView(next)
    if (how === 'push') history.pushState(null, '', url)
    else history.replaceState(null, '', url)
    setView(next)
  }
  return [view, change]
}

const root = document.getElementById('app')
if (root !== null) {
  root.replaceChildren()
  render(<App />, root)
}

/** The fields of a schema in the API's description that this panel shows. */
interface Schema {
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly enum?: readonly string[]
  readonly default?: string | number
  readonly properties?: Readonly<Record<string, Schema>>
  readonly items?: Schema
  readonly anyOf?: readonly Schema[]
}

interface Endpoint {
  readonly summary: string
  readonly parameters?: readonly { readonly name: string; readonly required?: boolean; readonly schema: Schema }[]
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema: Schema }>> }>
  >
}

interface Description {
  readonly paths: Readonly<Record<string, { readonly get: Endpoint }>>
}

/** Shows the API's own description to people. */
function Api() {
  const [description, setDescription] = useState<Description | null>(null)
  useEffect(() => {
    void fetch('/api')
      .then(async (response) => setDescription((await response.json()) as Description))
      .catch(() => undefined)
  }, [])
  const endpoints = Object.entries(description?.paths ?? {})
  return (
    <>
      <Panel id="api" title="API" aside={<a href="/api">OpenAPI 3.1</a>}>
        <p>
          Everything is read with GET and comes as JSON. Times are Unix milliseconds, decimal numbers are exact text.
        </p>
        <ul class="index">
          {endpoints.map(([path, { get }]) => (
            <li key={path}>
              <a href={`#${idOf(path)}`}>{path}</a> <span class="dim">{get.summary}</span>
            </li>
          ))}
        </ul>
      </Panel>
      {endpoints.map(([path, { get }]) => (
        <Panel key={path} id={idOf(path)} title={path}>
          <p>{get.summary}</p>
          <Command text={curlOf(path, get)} />
          {get.parameters !== undefined && <h3>Parameters</h3>}
          <ul class="fields">
            {get.parameters?.map(({ name, required, schema }) => (
              <Field key={name} name={name} schema={schema} note={required === true ? 'required' : ''} />
            ))}
          </ul>
          <h3>Response</h3>
          {Object.values(get.responses['200']?.content ?? {}).map(({ schema }, index) => (
            <Fields key={index} schema={schema} />
          ))}
        </Panel>
      ))}
    </>
  )
}

function idOf(path: string): string {
  return path.slice(1).replaceAll('/', '-')
}

const examples: Readonly<Record<string, string>> = {
  category: 'SPOT',
  symbol: 'BTCUSDT',
  keys: 'SPOT:BTCUSDT',
  stream: 'fills',
  from: String(Date.now() - 3_600_000),
  to: String(Date.now()),
}

/** Returns a request that a shell sends, with an example of each parameter that is required. */
function curlOf(path: string, { parameters = [] }: Endpoint): string {
  const given = parameters
    .filter(({ required }) => required === true)
    .map(({ name }) => `${name}=${examples[name] ?? ''}`)
  const query = given.length === 0 ? '' : `?${given.join('&')}`
  return `curl ${path === '/api/events' ? '-N ' : ''}'${location.origin}${path}${query}'`
}

function Fields({ schema }: { schema: Schema }) {
  const { items, properties, anyOf } = schema
  if (items !== undefined) return <Fields schema={items} />
  if (properties !== undefined) {
    return (
      <ul class="fields">
        {Object.entries(properties).map(([name, field]) => (
          <Field key={name} name={name} schema={field} />
        ))}
      </ul>
    )
  }
  return (
    <>
      {anyOf?.map((one, index) => (
        <Fields key={index} schema={one} />
      ))}
    </>
  )
}

function Field({ name, schema, note = '' }: { name: string; schema: Schema; note?: string }) {
  const facts = [
    note,
    (schema.enum ?? [schema.type ?? ''].flat()).join(', '),
    schema.default === undefined ? '' : `default ${schema.default}`,
  ].filter((fact) => fact !== '')
  return (
    <li>
      <code>{name}</code> <span class="dim">{facts.join('; ')}</span> {schema.description}
      <Fields schema={schema} />
    </li>
  )
}
