import { useEffect, useState } from 'preact/hooks'
import { Command, Panel } from './panel.js'

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
export function Api() {
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
