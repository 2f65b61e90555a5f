import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

/** Where `.ci/engines` installs the engines that read the tables of an archive. */
const folder = process.env['ENGINES'] ?? join(import.meta.dirname, '../../.engines')

interface Engine {
  /** The Python that has it; null when it is not installed. */
  readonly python: string | null
  /** For the names of tests that are skipped; empty when the engine is there. */
  readonly hint: string
}

export function engine(name: 'pyiceberg' | 'duckdb' | 'spark'): Engine {
  const python = join(folder, name, 'bin/python')
  if (existsSync(python)) return { python, hint: '' }
  const hint = `SKIPPED: no ${name} here; .ci/engines installs it`
  process.stderr.write(`${hint}\n`)
  return { python: null, hint: ` (${hint})` }
}

/** Runs a script of test/engines and resolves to the JSON that it prints. */
export async function runEngine({ python }: Engine, script: string, parameters: readonly string[]): Promise<unknown> {
  const path = join(import.meta.dirname, '../engines', script)
  const { stdout } = await promisify(execFile)(python ?? '', [path, ...parameters], { maxBuffer: 1 << 28 })
  return JSON.parse(stdout)
}
