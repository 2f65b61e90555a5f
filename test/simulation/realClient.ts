import type { Socket } from 'node:net'
import pg from 'pg'

/** Unqualified, `now()` is the world's: the catalogue comes last. */
export const searchPath = '-c search_path=simulated,public,pg_catalog'

/** Login of the real server. */
export interface RealServer {
  readonly host: string
  readonly port: number
  readonly user: string
  readonly password: string
}

type Method = (...given: unknown[]) => unknown

/** The driver's own methods, before they are replaced. */
const driver = pg.Client.prototype as unknown as Readonly<Record<'connect' | 'query' | 'end', Method>>
const methods = { connect: driver.connect, query: driver.query, end: driver.end }

/** The driver as it is, for sessions of the harness's own and for those behind the simulated ones. */
export class RealClient extends pg.Client {
  /** Sends a statement together with another one before it, whose result is dropped. */
  queryBehind(ahead: string | undefined, query: pg.QueryConfig): Promise<pg.QueryResult> {
    if (ahead === undefined) return this.query(query)
    const { stream } = (this as unknown as { readonly connection: { readonly stream: Socket } }).connection
    stream.cork()
    this.query(ahead).catch(() => undefined)
    const result = this.query(query)
    stream.uncork()
    return result
  }
}
Object.assign(RealClient.prototype, methods)

const names = new Map<string, string>()

/** Prepares each statement once in a session: the server would spend most of its time on planning. */
export function prepared(config: unknown, values: unknown): pg.QueryConfig {
  if (typeof config !== 'string') return config as pg.QueryConfig
  if (!Array.isArray(values) || values.length === 0) return { text: config }
  let name = names.get(config)
  if (name === undefined) names.set(config, (name = `s${names.size}`))
  return { text: config, name, values: values as unknown[] }
}
