import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadConfig } from '../src/config/resolve.js'
import { openStore } from '../src/openStore.js'
import { createLogger } from '../src/runtime/logger.js'
import { packageFile } from '../src/runtime/process.js'
import { type Check, median } from './figures.js'

interface Timed {
  readonly what: string
  readonly args: readonly string[]
  /** In times of an empty Node; none where it is only shown. */
  readonly maxRatio?: number
}

/** How long commands take from start to end, in times of a Node that runs an empty file, turn by turn. */
export async function measureStartup(rounds: number): Promise<Check[]> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-startup-'))
  const empty = join(folder, 'empty.mjs')
  await writeFile(empty, '')
  const program = packageFile('dist/program/main.js')
  const config = loadConfig({ env: {} })
  config.database.dataDir = folder
  // The server that `query` finds running.
  const store = await openStore(config, createLogger('silent'), { mayCreate: true })
  try {
    const timed: readonly Timed[] = [
      { what: '--version', args: [program, '--version'], maxRatio: 3 },
      { what: '--help', args: [program, '--help'], maxRatio: 3 },
      { what: 'query --help', args: [program, 'query', '--help'] },
      {
        what: 'query "select 1", server running',
        args: [program, 'query', '--data-dir', folder, 'select 1'],
        maxRatio: 5,
      },
      { what: 'start --help: all that a daemon loads', args: [program, 'start', '--help'] },
    ]
    const emptyMs: number[] = []
    const takenMs = timed.map((): number[] => [])
    for (let round = 0; round < rounds; round++) {
      emptyMs.push(await timeOf([empty]))
      for (const [index, { args }] of timed.entries()) takenMs[index]?.push(await timeOf(args))
    }
    const floorMs = median(emptyMs)
    return timed.map(({ what, maxRatio }, index) => {
      const ms = median(takenMs[index] ?? [])
      const ratio = ms / floorMs
      return {
        what: `startup: ${what}`,
        measured: `${ratio.toFixed(2)} times an empty Node (${ms.toFixed(0)} / ${floorMs.toFixed(0)} ms)`,
        target: maxRatio === undefined ? '' : `≤ ${maxRatio}`,
        isMet: maxRatio === undefined || ratio <= maxRatio,
      }
    })
  } finally {
    await store.close()
    await rm(folder, { recursive: true, force: true })
  }
}

async function timeOf(args: readonly string[]): Promise<number> {
  const { PATH = '', HOME = '' } = process.env
  const startedAt = performance.now()
  const child = spawn(process.execPath, [...args], { stdio: 'ignore', env: { PATH, HOME } })
  const [code] = (await once(child, 'close')) as [number | null]
  if (code !== 0) throw new Error(`${args.join(' ')} ended with ${code}`)
  return performance.now() - startedAt
}
