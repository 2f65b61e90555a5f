import type { Command } from 'commander'
import { prepareBeside } from '../prepareStore.js'
import { openStore } from '../openStore.js'
import { createLogger } from '../runtime/logger.js'
import { mendClock } from '../ledger/live/mend.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'
import { writeOut } from './output.js'

interface MendOptions extends CommonOptions {
  readonly apply?: boolean
  readonly json?: boolean
}

/** Rows may be a few minutes ahead of this machine: its clock may be behind the service's. */
const aheadMs = 10 * 60_000

export function mendCommand(): Command {
  return configuredCommand('mend')
    .option('--apply', 'do it; without this nothing is changed')
    .option('--json', 'print one JSON array')
    .addHelpText(
      'after',
      '\nExamples:\n  market-recorder mend\n  market-recorder mend --apply\n\n' +
        'Check the clock of this machine first: what is more than ten minutes ahead of it counts as wrong.\n' +
        'Rows are moved to recorder.rejected_row. Exit code: 0.',
    )
    .action(runMend)
}

async function runMend(options: MendOptions): Promise<void> {
  const config = await readConfig(options)
  const store = await openStore(config, createLogger('warn'))
  try {
    await prepareBeside(store, config, createLogger('warn'))
    const possible = { earliest: Date.UTC(2010, 0, 1), latest: Date.now() + aheadMs }
    const found = await mendClock(store.database.db, possible, options.apply === true)
    if (options.json === true) return await writeOut(`${JSON.stringify(found)}\n`)
    if (found.length === 0) return await writeOut('no impossible timestamps found\n')
    for (const { table, rows, what } of found)
      await writeOut(`${table}: ${rows} ${rows === 1 ? 'row' : 'rows'} ${what}\n`)
    if (options.apply !== true) await writeOut('nothing was changed; --apply does it\n')
  } finally {
    await store.close()
  }
}
