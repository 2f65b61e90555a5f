import { Command, Option } from 'commander'
import { type Recorder, startRecorder } from '../app.js'
import { loadConfig } from '../config/resolve.js'
import { grouped } from '../runtime/figures.js'
import { createLogger } from '../runtime/logger.js'
import { packageFile } from '../runtime/packageFile.js'
import { stopSignal } from '../runtime/shutdown.js'
import { countRows } from '../ledger/read/overview.js'
import { wantDemoHistory } from './demoHistory.js'
import { Failed } from './failed.js'
import { positiveSeconds } from './options.js'
import { sleepUnlessStopped } from './wait.js'

interface DemoOptions {
  readonly dataDir: string
  readonly for?: number
}

export function demoCommand(): Command {
  return new Command('demo')
    .option('--data-dir <folder>', 'folder of the database; run it again to continue with the same data', './data')
    .addOption(new Option('--for <seconds>', 'stop by itself after this time').argParser(positiveSeconds))
    .addHelpText('after', '\nExample:\n  market-recorder demo --for 60')
    .action(runDemo)
}

async function runDemo(options: DemoOptions): Promise<void> {
  const stop = stopSignal()
  const logger = createLogger('info')
  // A module of its own also when bundled: the thread loads no more than this.
  const { startSimulatorThread } = await import('../simulator/thread.js')
  const simulator = await startSimulatorThread({ scale: 'small' })
  try {
    const config = loadConfig({ file: packageFile('config/demo.yaml'), env: {} })
    config.exchange.baseUrl = simulator.url
    config.database.dataDir = options.dataDir
    const recorder = await startRecorder(config, logger, { signal: stop.signal })
    printWelcome(recorder, simulator.url)
    const { settleMs } = config.streams.candles
    const ending = new AbortController()
    const history = wantDemoHistory(recorder, { settleMs, logger, signal: ending.signal })
    await sleepUnlessStopped(options.for, stop.signal)
    ending.abort()
    await history
    const drained = await recorder.stop(async () => printCounts(await countRows(recorder.store.database.db)))
    if (!drained) {
      logger.error('not everything that was received could be stored in time')
      throw new Failed()
    }
  } finally {
    await simulator.close()
    stop.release()
  }
}

function printWelcome(recorder: Recorder, simulatorUrl: string): void {
  console.log(`
Recording a simulated exchange (${simulatorUrl}) into an embedded PostgreSQL.

  Page  ${recorder.pageUrl ?? 'not served'}
  SQL   psql '${recorder.store.readUrl}'
  or    npx market-recorder query "select * from market.latest_tickers limit 5"

Ctrl-C stops it; run it again to continue with the same data.
`)
}

function printCounts(counts: Readonly<Record<string, number>>): void {
  console.log('\nRows stored:')
  const width = Math.max(...Object.keys(counts).map((name) => name.length))
  for (const [name, count] of Object.entries(counts)) {
    console.log(`  ${name.padEnd(width)}  ${grouped(count).padStart(10)}`)
  }
}
