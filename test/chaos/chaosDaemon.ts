import { type ChildProcess, spawn } from 'node:child_process'
import { createWriteStream, type WriteStream } from 'node:fs'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { setTimeout as sleep } from 'node:timers/promises'

const entryPoint = fileURLToPath(new URL('../../dist/program/main.js', import.meta.url))

/** A daemon under a supervisor that starts it again whenever it ends, as an operating system's would. */
export class ChaosDaemon {
  readonly #args: readonly string[]
  readonly #env: NodeJS.ProcessEnv
  readonly #log: WriteStream
  #child: ChildProcess | undefined
  #isWanted = false
  #supervising: Promise<void> = Promise.resolve()
  /** How often it ended without having been told to. */
  unexpectedEnds = 0
  exitCode: number | null = null

  constructor(args: readonly string[], env: Readonly<Record<string, string>>, logFile: string) {
    this.#args = args
    const { PATH = '', HOME = '' } = process.env
    this.#env = { PATH, HOME, ...env }
    this.#log = createWriteStream(logFile, { flags: 'a' })
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  start(): void {
    if (this.#isWanted) return
    this.#isWanted = true
    this.#supervising = this.#supervise()
  }

  async kill(): Promise<void> {
    this.#isWanted = false
    this.#child?.kill('SIGKILL')
    await this.#supervising
  }

  /** Resolves to the exit code. */
  async stop(): Promise<number | null> {
    this.#isWanted = false
    this.#child?.kill('SIGTERM')
    await this.#supervising
    return this.exitCode
  }

  async #supervise(): Promise<void> {
    while (this.#isWanted) {
      const child = spawn(process.execPath, [entryPoint, 'start', ...this.#args], {
        env: this.#env,
        stdio: ['ignore', 'ignore', 'pipe'],
      })
      this.#child = child
      child.stderr.on('data', (data: Buffer) => this.#log.write(data))
      await once(child, 'exit')
      this.exitCode = child.exitCode
      if (!this.#isWanted) return
      this.unexpectedEnds++
      this.#log.write(
        `ended by itself: code ${child.exitCode}, signal ${child.signalCode}, ${new Date().toISOString()}\n`,
      )
      await sleep(500)
    }
  }
}
