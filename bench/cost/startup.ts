import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { loadConfig } from '../../src/config/resolve.js'
import { openStore } from '../../src/openStore.js'
import { createLogger } from '../../src/runtime/logger.js'
import { entryPoint, startProgram } from '../../test/support/program.js'
import { atMost, type Check, figure, median } from '../tools/checks.js'
import { withFolder } from '../tools/recorder.js'

interface Timed {
  readonly what: string
  readonly args: readonly string[]
  /** In times of an empty Node. Undefined for a command without a target. */
  readonly maxRatio?: number
}

/** How long commands take from start to end, in times of a Node that runs an empty file, turn by turn. */
export async function measureStartup(rounds: number): Promise<Check[]> {
  return withFolder('startup', async (folder) => {
    const empty = join(folder, 'empty.mjs')
    await writeFile(empty, '')
    const config = loadConfig({ env: {} })
    config.database.dataDir = folder
    const timed: readonly Timed[] = [
      { what: '--version', args: ['--version'], maxRatio: 3 },
      { what: '--help', args: ['--help'], maxRatio: 3 },
      { what: 'query --help', args: ['query', '--help'] },
      { what: 'query "select 1", server running', args: ['query', '--data-dir', folder, 'select 1'] },
      { what: 'start --help: all that a daemon loads', args: ['start', '--help'] },
    ]
    const emptyMs: number[] = []
    const takenMs = timed.map((): number[] => [])
    // The server that `query` finds running.
    const store = await openStore(config, createLogger('silent'), { mayCreate: true })
    try {
      for (let round = 0; round < rounds; round++) {
        emptyMs.push(await timeOf(empty, []))
        for (const [index, { args }] of timed.entries()) takenMs[index]?.push(await timeOf(entryPoint, args))
      }
    } finally {
      await store.close()
    }
    return timed.map((one, index) => checkOf(one, median(takenMs[index] ?? []), median(emptyMs)))
  })
}

function checkOf({ what, maxRatio }: Timed, ms: number, emptyMs: number): Check {
  const format = { unit: 'times an empty Node', detail: `${ms.toFixed(0)} / ${emptyMs.toFixed(0)} ms` }
  const ratio = ms / emptyMs
  if (maxRatio !== undefined) return atMost(`startup: ${what}`, ratio, maxRatio, format)
  return figure(`startup: ${what}`, `${ratio.toFixed(2)} ${format.unit} (${format.detail})`)
}

async function timeOf(program: string, args: readonly string[]): Promise<number> {
  const startedAt = performance.now()
  const { exitCode } = await startProgram(args, {}, program).finished
  if (exitCode !== 0) throw new Error(`${args.join(' ')} ended with ${exitCode}`)
  return performance.now() - startedAt
}
