import { resolve } from 'node:path'
import { type Command, Option } from 'commander'
import { ConfigError } from '../config/configError.js'
import { categories } from '../market/category.js'
import { hasWildcard, symbolMatcher, unmatched } from '../market/instrument.js'
import { serviceMs, type ServiceMs } from '../market/values.js'
import { openReader } from '../openStore.js'
import { stopSignal } from '../runtime/process.js'
import type { DatabasePool } from '../db/pool.js'
import { type ExportFormat, exportFormats } from '../files/export/files.js'
import { type ExportProgress, runExport } from '../files/export/run.js'
import { describeProof, describeSource, endOfRows, knownSymbols } from '../files/export/request.js'
import { failedOrStopped } from './end.js'
import { type CommonOptions, configuredCommand, moment, namesOption, readConfig } from './options.js'
import { print, progressLine, tell, warnings, writeJson } from './output.js'
import { counted } from '../runtime/text.js'

interface ExportOptions extends CommonOptions {
  readonly out?: string
  readonly format: ExportFormat
  readonly from?: ServiceMs
  readonly to?: ServiceMs
  readonly category?: readonly string[]
  readonly symbol?: readonly string[]
  readonly overwrite?: boolean
  readonly json?: boolean
}

const examples = `
Examples:
  npx market-recorder export fills --from 2026-03-01 --to 2026-04-01 --symbol 'BTC*' --out ./march
  npx market-recorder export candles --from 2026-01-01 --category SPOT --format csv --out ./candles
  npx market-recorder export "select * from market.instruments where status = 'online'" --out ./online

Rows with an instrument and a time go to day=…/category=…/symbol=…/, others to one file. The same command again continues
where it was stopped, and adds the days since.`

export function exportCommand(): Command {
  // The parser treats the argument as optional, so that the command can explain how to give it.
  return configuredCommand('export')
    .argument('[what]', 'a relation such as candles, or a SELECT')
    .usage('[options] <what>')
    .option('--out <folder>', 'where the files go: a folder of their own')
    .addOption(new Option('--format <format>', 'file format').choices(exportFormats).default('parquet'))
    .addOption(
      new Option('--from <time>', 'start, such as 2026-03-01 or 2026-03-01T12:00; UTC unless it has a zone').argParser(
        moment,
      ),
    )
    .addOption(new Option('--to <time>', 'end, not included (default: after the newest row)').argParser(moment))
    .addOption(namesOption('--category <category...>', 'only these', categories))
    .option('--symbol <glob...>', 'only these, such as BTCUSDT or BTC*')
    .option('--overwrite', 'start over, replacing the export in the folder')
    .option('--json', 'print the result as JSON')
    .addHelpText('after', examples)
    .action(runExportCommand)
}

async function runExportCommand(what: string | undefined, options: ExportOptions): Promise<void> {
  const { out } = options
  if (what === undefined || out === undefined) {
    const missing = out === undefined ? ['--out is missing: a folder of their own for the files'] : []
    throw new ConfigError(what === undefined ? [whatIsMissing(options), ...missing] : missing)
  }
  const config = await readConfig(options)
  const stop = stopSignal()
  const store = await openReader(config, warnings)
  const progress = progressLine()
  const startedAt = performance.now()
  try {
    const source = await describeSource(store, what)
    const hasSelection = [options.from, options.to, options.category, options.symbol].some(
      (value) => value !== undefined,
    )
    if (source.timeColumn === undefined && hasSelection) {
      throw new ConfigError([
        `${what} has no category, symbol and time to select by: omit --from, --to, --category and --symbol`,
      ])
    }
    if (source.timeColumn !== undefined && options.from === undefined) {
      throw new ConfigError(['--from is missing: rows with a time are exported from one moment to another'])
    }
    const from = options.from ?? serviceMs(0)
    if (options.to !== undefined && from >= options.to) throw new ConfigError(['--from must be before --to'])
    const symbols = options.symbol && (await matchingSymbols(store, options.symbol))
    const selection = {
      source,
      from,
      ...(options.category && { categories: options.category }),
      ...(symbols && { symbols }),
    }
    const to = options.to ?? (await endOfRows(store, selection))
    const result = await runExport(
      store,
      {
        ...selection,
        what,
        folder: resolve(out),
        format: options.format,
        to,
        ...(options.symbol && { symbolPatterns: options.symbol }),
        isOverwriting: options.overwrite === true,
      },
      {
        signal: stop.signal,
        onProgress: (done) => progress.show(() => describeProgress(done, startedAt)),
        onNote: (text) => progress.note(text),
      },
    )
    progress.end()
    if (options.symbol && result.rows + result.partsSkipped + result.partsKept.length === 0) {
      throw new Error(`no rows match --symbol ${options.symbol.join(' ')} there: market.instruments lists the symbols`)
    }
    const proof = await describeProof(store, selection, to)
    if (proof !== null) tell(proof)
    if (options.json === true) {
      await writeJson({ ...result, folder: resolve(out) })
      return
    }
    const skipped = result.partsSkipped === 0 ? '' : `; ${counted(result.partsSkipped, 'day')} had been exported before`
    print(`${counted(result.rows, 'row')} in ${counted(result.files, 'file')} in ${out}${skipped}`)
  } catch (error) {
    progress.end()
    throw failedOrStopped(error, stop.signal)
  } finally {
    stop.release()
    await store.close()
  }
}

/** Explains that the argument is missing. An option --symbol before it takes it as another symbol. */
function whatIsMissing({ symbol = [] }: ExportOptions): string {
  const last = symbol.length > 1 ? symbol.at(-1) : undefined
  const taken = last === undefined ? '' : `; --symbol took "${last}", as it takes every word after it`
  return `what to export is missing${taken}. Give it first: npx market-recorder export fills --symbol BTCUSDT …`
}

/** Resolves patterns to known symbols. A name without wildcards stands for itself, even if it is unknown. */
async function matchingSymbols(database: DatabasePool, globs: readonly string[]): Promise<string[]> {
  const known = await knownSymbols(database)
  const literal = unmatched(globs, known).filter((glob) => !hasWildcard(glob))
  const isMatch = symbolMatcher(globs)
  const symbols = [...new Set([...literal, ...known.filter((symbol) => isMatch(symbol))])]
  if (symbols.length === 0) throw new ConfigError([`no symbol matches ${globs.join(' ')}`])
  return symbols.toSorted()
}

/** Describes the progress of an export in one line. */
function describeProgress({ partsDone, parts, rows }: ExportProgress, startedAt: number): string {
  const seconds = (performance.now() - startedAt) / 1000
  const left = partsDone === 0 ? '' : `, ${Math.ceil((seconds / partsDone) * (parts - partsDone))} s left`
  return `${partsDone} of ${parts} days, ${rows} rows, ${Math.round(rows / seconds)} rows/s${left}`
}
