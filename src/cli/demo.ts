import { Command, Option } from 'commander'
import type { Recorder } from '../app.js'
import { type Config, loadConfig } from '../config/resolve.js'
import { grouped, messageOf } from '../runtime/text.js'
import { createLogger, type Logger } from '../runtime/logger.js'
import { packageFile } from '../runtime/process.js'
import { countRows } from '../ledger/read/overview.js'
import { sleepUnlessStopped } from './end.js'
import { positiveSeconds } from './options.js'
import { print, welcomeLines } from './output.js'
import { openRecording } from './start.js'
import { streamNames, streamTraits } from '../market/stream.js'
import { addMs, dayMs } from '../market/values.js'
import { planSeries, resolveRequest, wantsOf } from '../history/request.js'
import { systemClock } from '../runtime/clock.js'
import { insertWants } from '../ledger/wants.js'
import { listInstruments } from '../ledger/read/instruments.js'

interface DemoOptions {
  readonly dataDir: string
  readonly for?: number
}

export function demoCommand(): Command {
  return new Command('demo')
    .option('--data-dir <folder>', 'folder of the database; run it again to continue with the same data', './data')
    .addOption(new Option('--for <seconds>', 'stop by itself after this time').argParser(positiveSeconds))
    .addHelpText('after', '\nExample:\n  npx market-recorder demo --for 60')
    .action(runDemo)
}

async function runDemo(options: DemoOptions): Promise<void> {
  const logger = createLogger('info')
  const config = loadConfig({ file: packageFile('config/demo.yaml'), env: {} })
  const recording = openRecording(config, logger)
  // The simulator is a module of its own even when bundled, so that the thread loads nothing else.
  const { startSimulatorThread } = await import('../simulator/thread.js')
  const simulator = await startSimulatorThread({ scale: 'small' })
  try {
    config.exchange.baseUrl = simulator.url
    config.database.dataDir = options.dataDir
    const recorder = await recording.start({ takesNextPort: true })
    if (recorder === undefined) return
    printWelcome(recorder, options.dataDir, simulator.url)
    const { settleMs } = config.streams.candles
    const ending = new AbortController()
    const history = wantDemoHistory(recorder, { settleMs, logger, signal: ending.signal })
    await sleepUnlessStopped(options.for, recording.signal)
    ending.abort()
    await history
    const beforeDatabaseCloses = async () => printCounts(await countRows(recorder.store.database.db), config)
    await recording.stop(recorder, { beforeDatabaseCloses })
  } finally {
    await simulator.close()
    recording.release()
  }
}

function printWelcome(recorder: Recorder, dataDir: string, simulatorUrl: string): void {
  print(`
Recording a simulated exchange (${simulatorUrl}) into an embedded PostgreSQL.

${welcomeLines(recorder, dataDir)}

Ctrl-C stops it; run it again to continue with the same data.
`)
}

/** Prints the number of rows per table. Leaves out tables of streams that are off, unless an earlier run left rows. */
function printCounts(counts: Readonly<Record<string, number>>, config: Config): void {
  print('\nRows stored:')
  const off = streamNames.filter((name) => !config.streams[streamTraits[name].options].enabled)
  const shown = Object.entries(counts).filter(([name, count]) => count > 0 || !off.some((one) => one === name))
  const width = Math.max(...shown.map(([name]) => name.length))
  for (const [name, count] of shown) {
    print(`  ${name.padEnd(width)}  ${grouped(count).padStart(10)}`)
  }
}

const historyMs = 3 * dayMs
const request = {
  stream: 'candles',
  categories: ['SPOT', 'USDT-FUTURES'],
  symbols: ['BTCUSDT', 'ETHUSDT', 'SOLUSDT'],
  types: ['market'],
  intervals: ['1m'],
} as const
const pollMs = 250

/**
 * Inserts wants for some days of candles of a few instruments as soon as these are known. A new page then has
 * something to show. The recorder fetches the candles. Never rejects, because the demo also works without them.
 */
async function wantDemoHistory(
  { store, serviceClock }: Recorder,
  settings: { readonly settleMs: number; readonly logger: Logger; readonly signal: AbortSignal },
): Promise<void> {
  const { db } = store.database
  const { settleMs, logger, signal } = settings
  try {
    let instruments = await listInstruments(db)
    let now = serviceClock.now()
    while (
      now === null ||
      !request.categories.every((wanted) => instruments.some(({ category }) => category === wanted))
    ) {
      await systemClock.sleep(pollMs, signal)
      instruments = await listInstruments(db)
      now = serviceClock.now()
    }
    const { series } = resolveRequest({ ...request, from: addMs(now, -historyMs), to: now }, instruments, now, settleMs)
    const planned = await planSeries(db, series, { again: false })
    await insertWants(db, wantsOf(planned, { kind: 'backfill', again: false }))
  } catch (error) {
    if (signal.aborted) return
    logger.warn(`no history is fetched: ${messageOf(error)}`)
  }
}
