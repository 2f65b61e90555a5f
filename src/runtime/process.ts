import { existsSync, readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { dirname, join } from 'node:path'
import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** Reason of an abort by `stopSignal`. */
class Stopped extends Error {
  /** Exit code that shells report for a program ended by the signal. */
  readonly exitCode: number

  constructor(name: NodeJS.Signals) {
    super(`stopped by ${name}`)
    this.exitCode = name === 'SIGINT' ? 130 : 143
  }
}

/**
 * Returns a signal that aborts on the first SIGINT or SIGTERM. A second one ends the process at once, for users who
 * press Ctrl-C twice. `release` returns both signals to Node.
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
    // Another user's process cannot be signalled, but it exists.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

/** Largest room for new objects. Its default would grow to 32 MB, although objects are rarely used after a response. */
const maxNewSpaceBytes = 8_000_000

/**
 * Collects garbage when the heap has grown by two fifths. By default V8 lets the heap grow to several times the used
 * size, because it goes by the machine's memory. A daemon leaves that memory to its database. With three quarters, a
 * daemon at full budget takes a tenth more memory and a twelfth less processor time. With one fifth, it collects every
 * second.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--heap-growing-percent=40')
  // With such a small heap, parallel collection costs more than it saves: a tenth of a daemon's processor time, and
  // half on busy cores.
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

/** Removes the brackets of IPv6 addresses in URLs and headers, because sockets do not accept them. */
export function withoutBrackets(host: string): string {
  return host.replace(/^\[(.*)\]$/, '$1')
}

/** Returns a host in the form for URLs, with brackets around an IPv6 address. */
export function inUrl(host: string): string {
  return host.includes(':') ? `[${host}]` : host
}

let root: string | undefined

/** Returns the path of a file of this package, for example `config/demo.yaml`. The file need not exist. */
export function packageFile(path: string): string {
  root ??= packageRoot()
  return join(root, path)
}

/** Finds the folder of our package.json. Its depth differs between the sources and the bundled program. */
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

/** Returns the version in package.json. */
export function packageVersion(): string {
  return readPackage(packageFile('package.json')).version
}
