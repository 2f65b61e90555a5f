import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { packageFile } from '../../src/runtime/process.js'

interface Engine {
  /** The Python that has it; null when it is not installed. */
  readonly python: string | null
  /** For the names of tests that are skipped; empty when the engine is there. */
  readonly hint: string
}

/** An engine that `.ci/engines` has installed. Other runs leave the engines out, because they take minutes. */
export function engine(name: 'pyiceberg' | 'duckdb' | 'spark' | 'trino' | 'clickhouse'): Engine {
  const folder = process.env['ENGINES']
  if (folder !== undefined && existsSync(join(folder, `${name}.installed`))) {
    return { python: join(folder, 'python/bin/python'), hint: '' }
  }
  const hint = `SKIPPED: no ${name} here; .ci/engines installs and runs it`
  process.stderr.write(`${hint}\n`)
  return { python: null, hint: ` (${hint})` }
}

/** Runs a script of test/engines, which gets a request and prints a result, both as JSON. */
export async function runEngine({ python }: Engine, script: string, request: object): Promise<unknown> {
  const path = packageFile(`test/engines/${script}`)
  const running = promisify(execFile)(python ?? '', [path], { maxBuffer: 1 << 28 })
  running.child.stdin?.end(JSON.stringify(request))
  const { stdout } = await running
  return JSON.parse(stdout)
}
