import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { setPriority } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { RecorderDatabase } from '../src/db/database.js'
import { s3Environment } from '../test/support/s3.js'
import { maxMegabytes } from './processUse.js'

const program = fileURLToPath(new URL('../program/main.js', import.meta.url))

/** What every measurement of the archive works with. */
export interface ArchiveBench {
  readonly root: string
  readonly url: string
  readonly database: RecorderDatabase
}

export async function configure({ root }: ArchiveBench, name: string, text: string): Promise<string> {
  const file = join(root, `${name}.yaml`)
  await writeFile(file, `${text}\ndatabase: { dataDir: '${join(root, `${name}-data`)}' }\n`)
  return file
}

export interface Run {
  readonly seconds: number
  /** The most that the process had in memory. */
  readonly peakMb: number
  readonly output: string
  readonly exitCode: number | null
  readonly isKilled: boolean
}

/** Runs the program as a user does, with another priority or killed after a time if that is asked for. */
export async function run(
  { url }: Pick<ArchiveBench, 'url'>,
  config: string,
  args: readonly string[],
  { killAfterMs, priority }: { readonly killAfterMs?: number; readonly priority?: number } = {},
): Promise<Run> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, [program, ...args, '--config', config], {
    env: { ...process.env, ...s3Environment, DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  if (priority !== undefined && child.pid !== undefined) setPriority(child.pid, priority)
  let output = ''
  let complaints = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaints += text))
  let peakMb = 0
  const ended = new AbortController()
  const watch = (async () => {
    while (!ended.signal.aborted) {
      peakMb = Math.max(peakMb, Math.round((await maxMegabytes(child.pid ?? 0).catch(() => 0)) || 0))
      await sleep(100)
    }
  })()
  const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  await new Promise((resolve) => child.on('close', resolve))
  clearTimeout(timer)
  ended.abort()
  const seconds = (performance.now() - startedAt) / 1000
  await watch
  const isKilled = child.signalCode === 'SIGKILL'
  if (child.exitCode !== 0 && !isKilled && complaints !== '') process.stderr.write(`${args.join(' ')}: ${complaints}`)
  return { seconds, peakMb, output, exitCode: child.exitCode, isKilled }
}

/** The same for a run that has to succeed. */
export async function runWell(bench: Pick<ArchiveBench, 'url'>, config: string, args: readonly string[]): Promise<Run> {
  const done = await run(bench, config, args)
  if (done.exitCode !== 0) throw new Error(`${args.join(' ')} ended with exit code ${done.exitCode}`)
  return done
}

/** What verify finds wrong, with the archive alone. */
export async function problemsOf(bench: ArchiveBench, config: string): Promise<string[]> {
  const { output } = await run(bench, config, ['archive', 'verify', '--offline', '--json'])
  return (JSON.parse(output) as { problems: string[] }[]).flatMap((day) => day.problems)
}

/** The part of a configuration that names a bucket. */
export function bucketOptions(bucket: string, url: string): string {
  return `bucket: ${bucket}, endpoint: '${url}', forcePathStyle: true`
}
