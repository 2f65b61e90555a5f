import { type ChildProcess, fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { stringify } from 'yaml'
import { packageFile } from '../src/runtime/process.js'
import { startEmbeddedPostgres } from '../src/server/embedded/embedded.js'
import { sleep } from './backfillSetup.js'
import type { SentRequest } from './costDaemonSimulator.js'
import { type Check, median } from './figures.js'
import { freePort } from './freePort.js'
import { cpuSeconds, maxMegabytes } from './processUse.js'

/** Until then the daemon asks for what every new recorder has to ask once. */
const settleMs = 90_000
const roundMs = 60_000
/** An odd number, so that one of them is the median. */
const rounds = 5
/** One of the bounds that the daemon counts by. */
const durableWithinSeconds = 0.1
/** As the image and the systemd units have it. */
const asItsUnit = { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '16384', MALLOC_TRIM_THRESHOLD_: '131072' }
const program = packageFile('dist/program/main.js')

/**
 * The daemon on the live market with the default configuration and a backfill, so that nothing of the budget is left over, beside a
 * loop that sends the same requests in the same rhythm and throws the responses away. Side by side: in each minute the loop sends
 * what the daemon had sent in the one before, so that both run on the same machine in the same mood. Linux.
 */
export async function measureDaemon(): Promise<Check[]> {
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-bench-'))
  const simulator = fork(fileURLToPath(new URL('./costDaemonSimulator.js', import.meta.url)))
  const server = await startEmbeddedPostgres({ dataDir: join(folder, 'server') })
  const children: ChildProcess[] = []
  try {
    const [url] = (await once(simulator, 'message')) as [string]
    const file = join(folder, 'recorder.yaml')
    const port = await freePort()
    await writeFile(file, stringify({ serve: { port }, database: { dataDir: folder } }))
    const run = (...args: string[]) => {
      const child = spawn(process.execPath, [program, ...args, '--config', file], {
        env: { ...process.env, EXCHANGE_BASE_URL: url, DATABASE_URL: server.url, LOG_LEVEL: 'warn', ...asItsUnit },
        stdio: ['ignore', 'ignore', 'inherit'],
      })
      children.push(child)
      return child
    }
    const daemon = run('start')
    await sleep(settleMs / 2)
    const from = new Date(Date.now() - 90 * 86_400_000).toISOString()
    run('backfill', '--category', 'USDT-FUTURES', '--symbol', 'BTC*', 'ETH*', 'X*', '--interval', '1m', '--from', from)
    await sleep(settleMs / 2)
    const pid = daemon.pid
    if (pid === undefined || daemon.exitCode !== null) throw new Error('the daemon ended by itself')
    await sentTo(simulator)
    await sleep(roundMs)
    let requests = await sentTo(simulator)
    const ratios: number[] = []
    let sent = 0
    const byOperation = new Map<string, number>()
    const stored = await storedWithin(port)
    for (let round = 0; round < rounds; round++) {
      const before = await cpuSeconds(pid)
      const loop = loopOf(url, requests)
      await sleep(roundMs)
      const used = (await cpuSeconds(pid)) - before
      const own = await sentTo(simulator)
      const { cpuSeconds: loopSeconds, failures } = await loop
      // It does not pace itself, so the service refuses some. A refusal costs it less than a response, so the ratio is no better
      // for the daemon than without them.
      if (failures > requests.length / 20) throw new Error(`${failures} requests of the loop failed`)
      ratios.push(used / own.length / (loopSeconds / requests.length))
      console.log(
        `daemon and loop: ${used.toFixed(2)} and ${loopSeconds.toFixed(2)} s for ${own.length} and ${requests.length} requests`,
      )
      sent += own.length
      for (const { operation } of own) byOperation.set(operation, (byOperation.get(operation) ?? 0) + 1)
      requests = own
    }
    const megabytes = await maxMegabytes(pid)
    const storedLater = await storedWithin(port)
    const inTime = (storedLater.inTime - stored.inTime) / (storedLater.all - stored.all)
    for (const child of children) child.kill('SIGTERM')
    await once(daemon, 'exit')
    const ratio = median(ratios)
    const perSecond = (sent / rounds / roundMs) * 1000
    const seconds = (rounds * roundMs) / 1000
    console.log(`requests/s: ${[...byOperation].map(([name, n]) => `${name} ${(n / seconds).toFixed(1)}`).join(', ')}`)
    return [
      {
        what: 'daemon: processor time, against a loop that throws the same responses away',
        measured: `${ratio.toFixed(2)} (${perSecond.toFixed(0)} requests/s)`,
        target: 'at most 1.5',
        isMet: ratio <= 1.5,
      },
      {
        what: 'daemon: resident memory, highest',
        measured: `${megabytes.toFixed(0)} MB`,
        target: 'at most 150 MB',
        isMet: megabytes <= 150,
      },
      {
        what: `daemon: responses that are durable ${durableWithinSeconds * 1000} ms after their last byte`,
        measured: `${(inTime * 100).toFixed(2)} %`,
        target: 'at least 99 %',
        isMet: inTime >= 0.99,
      },
    ]
  } finally {
    for (const child of children) child.kill('SIGKILL')
    if (simulator.connected) simulator.disconnect()
    await server.stop()
    await rm(folder, { recursive: true, force: true })
  }
}

/** How many live responses were stored since the start, and how many of them in time, as the daemon's metrics say. */
async function storedWithin(port: number): Promise<{ readonly all: number; readonly inTime: number }> {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
  const sumOf = (line: RegExp) => [...text.matchAll(line)].reduce((sum, [, count]) => sum + Number(count), 0)
  return {
    all: sumOf(/^market_recorder_store_lag_seconds_count\{[^}]*\} (\d+)$/gm),
    inTime: sumOf(
      new RegExp(`^market_recorder_store_lag_seconds_bucket\\{[^}]*le="${durableWithinSeconds}"[^}]*\\} (\\d+)$`, 'gm'),
    ),
  }
}

async function sentTo(simulator: ChildProcess): Promise<SentRequest[]> {
  simulator.send('requests')
  const [requests] = (await once(simulator, 'message')) as [SentRequest[]]
  return requests.toSorted((a, b) => a.atMs - b.atMs)
}

async function loopOf(
  url: string,
  requests: readonly SentRequest[],
): Promise<{ cpuSeconds: number; failures: number }> {
  const loop = fork(fileURLToPath(new URL('./costDaemonLoop.js', import.meta.url)))
  loop.send({ url, requests })
  const [use] = (await once(loop, 'message')) as [{ cpuSeconds: number; failures: number }]
  return use
}
