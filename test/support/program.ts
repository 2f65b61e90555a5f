import { type ChildProcess, type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { packageFile } from '../../src/runtime/process.js'

/** The built program. */
export const entryPoint = packageFile('dist/program/main.js')

let folder: string | undefined
/** Where programs of a test file run: what one leaves in its default data directory must not come into another's database. */
function ownFolder(): string {
  return (folder ??= mkdtempSync(join(tmpdir(), 'market-recorder-run-')))
}

const children = new Set<ChildProcess>()

/** Ends the programs that run still, at once: those that a test has left which failed. */
export async function endPrograms(): Promise<void> {
  await Promise.all(
    [...children].map(async (child) => {
      const closed = once(child, 'close')
      child.kill('SIGKILL')
      await closed
    }),
  )
}

/** At the end of a test file. */
export async function leaveNothing(): Promise<void> {
  await endPrograms()
  if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  folder = undefined
}

export interface Finished {
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface Running {
  readonly process: ChildProcessByStdio<null, Readable, Readable>
  readonly finished: Promise<Finished>
  /** Resolves when the output matches; rejects when the program ends first. */
  printed(pattern: RegExp): Promise<RegExpMatchArray>
}

/**
 * Starts the built program as a user would. Of the environment it gets only PATH, HOME and what is given.
 *
 * @param within a command that starts the command after it, in surroundings of its own
 */
export function startProgram(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  program = entryPoint,
  within: readonly string[] = [],
): Running {
  if (!existsSync(program)) throw new Error(`${program} is not there: run npm run build first`)
  const { PATH = '', HOME = '' } = process.env
  const [command = '', ...rest] = [...within, process.execPath, program, ...args]
  const child = spawn(command, rest, {
    env: { PATH, HOME, ...env },
    cwd: ownFolder(),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  children.add(child)
  child.once('close', () => children.delete(child))
  let stdout = ''
  let stderr = ''
  const watchers = new Set<() => void>()
  const notify = () => {
    for (const watcher of watchers) watcher()
  }
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text
    notify()
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
    notify()
  })
  const finished = new Promise<Finished>((resolve) => {
    child.on('close', (exitCode) => resolve({ exitCode, stdout, stderr }))
  })
  return {
    process: child,
    finished,
    printed: (pattern) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const match = (stdout + stderr).match(pattern)
          if (match === null) return
          watchers.delete(look)
          resolve(match)
        }
        watchers.add(look)
        look()
        void finished.then(() => reject(new Error(`ended without printing ${String(pattern)}:\n${stdout}${stderr}`)))
      }),
  }
}

export async function runProgram(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Finished> {
  return startProgram(args, env).finished
}
