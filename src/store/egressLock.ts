import pg from 'pg'
import type { Logger } from '../runtime/logger.js'

export interface EgressLock {
  release(): Promise<void>
}

/** Separates these advisory locks from those that others may take in the same database. */
const lockClass = 0x6d72

/**
 * Takes the right to send requests from an egress IP: the service counts per IP, so one process owns its whole budget.
 * Waits while another process has it. The database gives it up by itself when the process or its connection dies.
 */
export async function acquireEgressLock(
  url: string,
  egress: string,
  options: { readonly logger: Logger; readonly signal?: AbortSignal },
): Promise<EgressLock> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'market-recorder egress lock',
    keepAlive: true,
  })
  client.on('error', (error) =>
    options.logger.error(`the connection that holds the budget of ${egress} broke: ${error.message}`),
  )
  await client.connect()
  try {
    const { rows } = await client.query<{ locked: boolean }>(
      'select pg_try_advisory_lock($1, hashtext($2)) as locked',
      [lockClass, egress],
    )
    if (rows[0]?.locked !== true) {
      options.logger.info(`another recorder owns the budget of ${egress}; waiting until it ends`)
      await Promise.race([
        client.query('select pg_advisory_lock($1, hashtext($2))', [lockClass, egress]),
        aborted(options.signal),
      ])
    }
  } catch (error) {
    await client.end()
    throw error
  }
  return { release: () => client.end() }
}

function aborted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
  })
}
