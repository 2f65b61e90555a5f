import pg from 'pg'

export type Done = (error: Error | null, result?: unknown) => void

/** Stands in for every client of the driver in this process. */
export interface ClientTarget {
  connect(client: pg.Client): Promise<void>
  end(client: pg.Client): Promise<void>
  query(client: pg.Client, config: unknown, values: unknown, done: Done): void
}

/** The fields of a client that the driver's pool and the recorder read. */
export interface VisibleClient {
  readonly host: string
  readonly connectionParameters: {
    readonly database: string
    readonly application_name: string
    readonly options?: string
    readonly statement_timeout?: number | string
    readonly query_timeout?: number | string
  }
  readonly ['_types']: pg.CustomTypesConfig
  readonly ['_connectionTimeoutMillis']: number
  connection: {
    ref(): void
    unref(): void
    readonly stream: { destroy(error?: Error): void; setTimeout(ms: number, onSilence: () => void): void }
  }
  ['_connected']: boolean
  ['_ending']: boolean
  ['_queryable']: boolean
}

export function visible(client: pg.Client): VisibleClient {
  return client as unknown as VisibleClient
}

let target: ClientTarget | undefined

/** From now on every new connection of this process leads to this database. */
export function answerForClients(by: ClientTarget): void {
  if (target === undefined) {
    Object.assign(pg.Client.prototype, {
      connect(this: pg.Client, done?: Done) {
        return either((own) => own.connect(this), done)
      },
      end(this: pg.Client, done?: Done) {
        return either((own) => own.end(this), done)
      },
      query(this: pg.Client, config: unknown, values?: unknown, done?: Done) {
        const callback = typeof values === 'function' ? (values as Done) : done
        const given = typeof values === 'function' ? undefined : values
        const own = target as ClientTarget
        if (callback !== undefined) return own.query(this, config, given, callback)
        return new Promise((resolve, reject) => {
          own.query(this, config, given, (error, value) => (error === null ? resolve(value) : reject(error)))
        })
      },
    })
  }
  target = by
}

function either(work: (own: ClientTarget) => Promise<void>, done: Done | undefined): Promise<void> | undefined {
  const working = work(target as ClientTarget)
  if (done === undefined) return working
  void tell(working, done)
  return undefined
}

async function tell(working: Promise<void>, done: Done): Promise<void> {
  try {
    await working
  } catch (error) {
    done(error as Error)
    return
  }
  done(null)
}
