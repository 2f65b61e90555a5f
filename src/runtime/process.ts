import { existsSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { dirname, join } from 'node:path'
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Why a signal of `stopSignal` is aborted. */
export class Stopped extends Error {
  /** Exit code that shells report for a program ended by the signal. */
  readonly exitCode: number

  constructor(name: NodeJS.Signals) {
    super(`stopped by ${name}`)
    this.exitCode = name === 'SIGINT' ? 130 : 143
  }
}

/**
 * A signal that aborts on the first SIGINT or SIGTERM. A second one ends the process at once: whoever presses Ctrl-C twice
 * does not want to wait for the rest. `release` gives both back to Node.
 */
export function stopSignal(): { readonly signal: AbortSignal; release(): void } {
  const controller = new AbortController()
  const onSignal = (name: NodeJS.Signals) => {
    const reason = new Stopped(name)
    if (controller.signal.aborted) process.exit(reason.exitCode)
    controller.abort(reason)
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return {
    signal: controller.signal,
    release() {
      process.off('SIGINT', onSignal)
      process.off('SIGTERM', onSignal)
    },
  }
}

/** Returns true if a process with this id exists, under any user. */
export function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    // Another user's process may not be signalled, but is there.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Room for new objects. By default it grows to 32 MB; what a recorder makes is mostly gone after a response. */
const maxNewSpaceBytes = 8_000_000

/**
 * Collects garbage when the heap has grown by two fifths. By default V8 lets it grow to several times what is in use, because
 * it sizes itself by the machine's memory; a daemon that lives beside its database has better use for that. With three
 * quarters a daemon at its full budget takes a tenth more memory and a twelfth less processor time; with one fifth it collects
 * every second.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--heap-growing-percent=40')
  // With so small a heap, parallel collection costs more in coordination than it saves: a tenth of a daemon's processor
  // time, and half on busy cores.
  setFlagsFromString('--no-parallel-scavenge')
}

/**
 * Keeps the room for new objects small in a long-running program. V8 takes its size only at the start of a process,
 * but stops its growth at any time.
 */
export function keepNewSpaceSmall(): void {
  const observer = new PerformanceObserver(() => {
    if (newSpaceBytes() < maxNewSpaceBytes) return
    setFlagsFromString('--semi-space-growth-factor=1')
    observer.disconnect()
  })
  observer.observe({ entryTypes: ['gc'] })
}

function newSpaceBytes(): number {
  return getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')?.space_size ?? 0
}

/** Returns true if a host can be reached from this machine only. */
export function isLoopback(host: string): boolean {
  return host === 'localhost' || host === '::1' || (isIP(host) === 4 && host.startsWith('127.'))
}

/** A host as sockets take it: URLs and headers have addresses of IPv6 in brackets. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1')
}

/** A host as a URL has it. */
export function inUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

let root: string | undefined

/** The path of a file of this package, for example `config/demo.yaml`; it need not exist. */
export function packageFile(path: string): string {
  root ??= packageRoot()
  return join(root, path)
}

/** The folder of our package.json: how far above this file it lies differs between the sources and the bundled program. */
function packageRoot(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file) && readPackage(file).name === 'market-recorder') return folder
    if (folder === dirname(folder)) throw new Error(`no package.json of market-recorder above ${import.meta.dirname}`)
  }
}

function readPackage(file: string): { readonly name: string; readonly version: string } {
  return JSON.parse(readFileSync(file, 'utf8')) as { readonly name: string; readonly version: string }
}

/** The version in package.json. */
export function packageVersion(): string {
  return readPackage(packageFile('package.json')).version
}
