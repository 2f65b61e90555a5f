import type { Command } from 'commander'
import { symbolMatcher } from '../market/instrument.js'
import { instrumentText } from '../market/category.js'
import { dayMs, serviceMs, sum } from '../market/values.js'
import { verify } from '../ledger/verify.js'
import type { Disagreement } from '../ledger/verify.js'
import { explainMissing } from '../db/readOnlyQuery.js'
import { openStore } from '../openStore.js'
import { systemClock } from '../runtime/clock.js'
import { createLogger } from '../runtime/logger.js'
import { Failed } from './end.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'
import { writeJson, writeOut } from './output.js'
import { seriesText } from '../market/candle.js'

interface VerifyOptions extends CommonOptions {
  readonly symbol: readonly string[]
  readonly json?: boolean
}

export function verifyCommand(): Command {
  return configuredCommand('verify')
    .option('--symbol <globs...>', 'only these symbols', ['*'])
    .option('--json', 'print one JSON array')
    .addHelpText(
      'after',
      "\nExample:\n  npx market-recorder verify --symbol 'BTC*'\n\nExit code: 0 when everything agrees, 1 when anything does not. Odd rows are only counted.",
    )
    .action(runVerify)
}

const maxShown = 20

async function runVerify(options: VerifyOptions): Promise<void> {
  const config = await readConfig(options)
  const store = await openStore(config, createLogger('warn'))
  const isWanted = symbolMatcher(options.symbol)
  const { retentionDays } = config.storage.candles
  const keptSince = serviceMs(retentionDays === undefined ? 0 : systemClock.now() - retentionDays * dayMs)
  let [isSound, isAnything] = [true, false]
  const results: unknown[] = []
  try {
    for await (const result of verify(store.database.db, ({ symbol }) => isWanted(symbol), keptSince)) {
      const { check, series, disagreements, oddRows } = result
      isSound &&= disagreements.length === 0
      isAnything ||= series > 0 && oddRows === undefined
      if (options.json === true) {
        results.push(result)
        continue
      }
      if (oddRows !== undefined) {
        const [first, ...others] = oddRows.toSorted((a, b) => b.count - a.count)
        const most =
          first && `, most of them of ${instrumentText(first)} and ${others.length} more, as the service sent them`
        await writeOut(`${check}: ${sum(oddRows.map(({ count }) => count))}${most ?? ''}\n`)
        continue
      }
      const found = disagreements.length === 0 ? 'ok' : `${disagreements.length} disagreement(s)`
      await writeOut(`${check}: ${series === 0 ? 'nothing to check' : `${found} (${series} series)`}\n`)
      for (const one of disagreements.slice(0, maxShown)) await writeOut(`  ${describe(one)}\n`)
      if (disagreements.length > maxShown) await writeOut(`  and ${disagreements.length - maxShown} more\n`)
    }
  } catch (error) {
    const { pool } = store.database
    throw await explainMissing(pool.query.bind(pool), error)
  } finally {
    await store.close()
  }
  if (options.json === true) await writeJson(results)
  if (!isAnything && options.symbol.join() !== '*')
    throw new Error(`nothing is stored of symbols like ${options.symbol.join(', ')}`)
  if (!isSound) throw new Failed()
}

function describe({ series, range: { from, to }, count, detail }: Disagreement): string {
  const text = (time: number) => new Date(time).toISOString().slice(0, 19)
  const many = count === 1 ? '' : ` (${count} candles)`
  return `${seriesText(series)} ${text(from)} to ${text(to)}${many}: ${detail}`
}
