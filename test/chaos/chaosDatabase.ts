import { execFileSync } from 'node:child_process'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { startEmbeddedPostgres } from '../../src/server/embedded/embedded.js'

/** A server that can be made to fail in the ways of real ones, and comes back at the same address. */
export interface ChaosDatabase {
  readonly url: string
  stop(): Promise<void>
  start(): Promise<void>
  /** As after a power cut: nothing is written any more, and what comes next recovers. */
  crash(): Promise<void>
  endAllSessions(): Promise<void>
  lockTable(table: string, forMs: number): Promise<void>
  readOnly(forMs: number): Promise<void>
  close(): Promise<void>
}

export async function startChaosDatabase(dataDir: string): Promise<ChaosDatabase> {
  let server: Awaited<ReturnType<typeof startEmbeddedPostgres>> | undefined = await startEmbeddedPostgres({ dataDir })
  const { url } = server
  const start = async () => {
    for (let attempt = 1; server === undefined; attempt++) {
      try {
        server = await startEmbeddedPostgres({ dataDir })
      } catch (error) {
        if (attempt >= 10) throw error
        await sleep(500)
      }
    }
  }
  const stop = async () => {
    const running = server
    server = undefined
    await running?.stop()
  }
  return {
    url,
    start,
    stop,
    async crash() {
      const [pid = ''] = (await readFile(join(dataDir, 'cluster', 'postmaster.pid'), 'utf8')).split('\n')
      execFileSync('kill', ['-QUIT', pid.trim()])
      await sleep(300)
      await stop()
      await start()
    },
    endAllSessions: () =>
      withClient(url, async (client) => {
        await client.query(
          `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'market-recorder%'`,
        )
      }),
    lockTable: (table, forMs) =>
      withClient(url, async (client) => {
        await client.query('begin')
        try {
          await client.query(`lock table ${table} in access exclusive mode`)
        } catch (error) {
          // Before the recorder has migrated it there is nothing to lock.
          if (!['42P01', '3F000'].includes((error as pg.DatabaseError).code ?? '')) throw error
        }
        await sleep(forMs)
        await client.query('rollback')
      }),
    async readOnly(forMs) {
      // The recorder is no superuser: by the file, as an administrator would.
      const settings = join(dataDir, 'cluster', 'postgresql.auto.conf')
      const before = await readFile(settings, 'utf8')
      await writeFile(settings, `${before}default_transaction_read_only = on\n`)
      await reload(dataDir)
      await sleep(forMs)
      await writeFile(settings, before)
      await reload(dataDir)
    },
    close: stop,
  }
}

async function reload(dataDir: string): Promise<void> {
  const [pid = ''] = (await readFile(join(dataDir, 'cluster', 'postmaster.pid'), 'utf8')).split('\n')
  execFileSync('kill', ['-HUP', pid.trim()])
}

async function withClient(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: url, application_name: 'chaos' })
  client.on('error', () => undefined)
  await client.connect()
  try {
    await work(client)
  } finally {
    await client.end()
  }
}
