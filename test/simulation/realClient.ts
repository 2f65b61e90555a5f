import pg from 'pg'

/** Unqualified, `now()` is the world's: the catalogue comes last. */
export const searchPath = '-c search_path=simulated,public,pg_catalog'

/** How to log in at the real server. */
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
export class RealClient extends pg.Client {}
Object.assign(RealClient.prototype, methods)
