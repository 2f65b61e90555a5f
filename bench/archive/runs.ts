import { startProgram } from '../../test/support/program.js'
import { s3Environment } from '../../test/support/s3.js'
import { watchMemory } from '../tools/processes.js'
import type { BenchDatabase } from '../tools/database.js'

interface Run {
  readonly seconds: number
  /** The most memory that the process had. */
  readonly peakMb: number
  readonly output: string
  readonly exitCode: number | null
  readonly isKilled: boolean
}

/** Runs the program as a user does. Kills it after a time if one is given. */
export async function run(
  { url }: BenchDatabase,
  config: string,
  args: readonly string[],
  killAfterMs?: number,
): Promise<Run> {
  const startedAt = performance.now()
  const program = startProgram([...args, '--config', config], { ...s3Environment, DATABASE_URL: url })
  const child = program.process
  const peak = watchMemory(child.pid)
  const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  const { exitCode, stdout, stderr } = await program.finished
  const seconds = (performance.now() - startedAt) / 1000
  clearTimeout(timer)
  const isKilled = child.signalCode === 'SIGKILL'
  if (exitCode !== 0 && !isKilled) process.stderr.write(`${args.join(' ')}: ${stderr}\n`)
  return { seconds, peakMb: peak.stop(), output: stdout, exitCode, isKilled }
}

/** Runs the program and throws if it fails. */
export async function runWell(bench: BenchDatabase, config: string, args: readonly string[]): Promise<Run> {
  const done = await run(bench, config, args)
  if (done.exitCode !== 0) throw new Error(`${args.join(' ')} ended with exit code ${done.exitCode}`)
  return done
}

/** Lists the problems that `archive verify` finds. Without the database it reads the archive alone. */
export async function problemsOf(bench: BenchDatabase, config: string, ...options: string[]): Promise<string[]> {
  const { output } = await run(bench, config, ['archive', 'verify', '--json', ...options])
  return (JSON.parse(output) as { problems: string[] }[]).flatMap(({ problems }) => problems)
}
