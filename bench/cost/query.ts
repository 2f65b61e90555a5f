import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { loadConfig } from '../../src/config/resolve.js'
import { openStore } from '../../src/openStore.js'
import { createLogger } from '../../src/runtime/logger.js'
import { entryPoint } from '../../test/support/program.js'
import { atMost, type Check, median } from '../tools/checks.js'
import { watchMemory } from '../tools/processes.js'
import { withFolder } from '../tools/recorder.js'

const rowCount = 1_000_000
const statement = `
  select 'USDT-FUTURES' as category, 'BTCUSDT' as symbol, timestamptz '2026-01-01Z' + i * interval '1 minute' as open_time,
    60000.1 + i as open, 60001.1 + i as high, 59999.1 + i as low, 60000.2 + i as close, i * 0.001 as base_volume, i % 7 = 0 as is_closed
  from generate_series(1, ${rowCount}) as i`

/** How long `query` takes with a million rows as a table, in times of the CSV of the same, and its memory. */
export async function measureQuery(rounds: number): Promise<Check[]> {
  return withFolder('query', async (folder) => {
    const config = loadConfig({ env: {} })
    config.database.dataDir = folder
    const store = await openStore(config, createLogger('silent'), { mayCreate: true })
    try {
      const args = ['query', '--data-dir', folder, '--timeout', '600']
      const csv: number[] = []
      const table: number[] = []
      let peakMb = 0
      for (let round = 0; round < rounds; round++) {
        csv.push((await runQuery([...args, '--csv', statement])).ms)
        const asTable = await runQuery([...args, '--rows', String(rowCount), statement])
        table.push(asTable.ms)
        peakMb = Math.max(peakMb, asTable.peakMb)
      }
      const ratio = median(table.map((ms, round) => ms / (csv[round] ?? Number.NaN)))
      const detail = `${(median(table) / 1000).toFixed(1)} / ${(median(csv) / 1000).toFixed(1)} s`
      return [
        atMost('query: a million rows as a table', ratio, 2, { unit: 'times its CSV', detail }),
        atMost('query: memory at its peak', Math.round(peakMb), 300, { unit: 'MB' }),
      ]
    } finally {
      await store.close()
    }
  })
}

async function runQuery(args: readonly string[]): Promise<{ ms: number; peakMb: number }> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, [entryPoint, ...args], { stdio: ['ignore', 'ignore', 'inherit'] })
  const peak = watchMemory(child.pid)
  const [exitCode] = (await once(child, 'close')) as [number | null]
  const peakMb = peak.stop()
  if (exitCode !== 0) throw new Error(`query ended with ${exitCode}`)
  return { ms: performance.now() - startedAt, peakMb }
}
