import http from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import axios from 'axios'
import { lastingPort } from '../../src/server/embedded/server.js'
import { type Running, startProgram } from '../../test/support/program.js'
import { atLeast, atMost, type Check, median } from '../tools/checks.js'
import { type BenchDatabase, withDatabase } from '../tools/database.js'
import { cpuSeconds, maxMegabytes } from '../tools/processes.js'
import { configFile, readMetrics } from '../tools/recorder.js'
import { type BenchSimulator, type SentRequest, startSimulatorChild } from '../tools/simulator.js'

/** Until then the daemon asks for what every new recorder has to ask once. */
const settleMs = 90_000
const roundMs = 60_000
/** An odd number: one of the rounds is the median. */
const rounds = 5
/** One of the bounds that the daemon counts by. */
const durableWithinSeconds = 0.1
/** As the image and the systemd units have it. */
const asItsUnit = { MALLOC_ARENA_MAX: '1', MALLOC_MMAP_THRESHOLD_: '16384', MALLOC_TRIM_THRESHOLD_: '131072' }
const daemonAddress = '127.0.0.1'
/** The service's limits hold for each address by itself. */
const loopAddress = '127.0.0.2'

/**
 * The daemon on the live market with the default configuration and a backfill, so that nothing of the budget is left
 * over. A loop beside it sends the same requests and throws the responses away. In each minute the loop sends what the
 * daemon sent in the minute before: both run on the same machine at the same time. Linux only.
 */
export async function measureDaemon(): Promise<Check[]> {
  const simulator = await startSimulatorChild({ scale: 'live', journal: true })
  try {
    return await withDatabase((bench) => measureBeside(bench, simulator))
  } finally {
    await simulator.close()
  }
}

async function measureBeside({ folder, url }: BenchDatabase, simulator: BenchSimulator): Promise<Check[]> {
  const port = await lastingPort()
  const config = await configFile(folder, 'recorder', { serve: { port }, database: { dataDir: folder } })
  const env = { EXCHANGE_BASE_URL: simulator.url, DATABASE_URL: url, LOG_LEVEL: 'warn', ...asItsUnit }
  const programs: Running[] = []
  const run = (...args: string[]) => {
    const program = startProgram([...args, '--config', config], env)
    programs.push(program)
    return program.process
  }
  try {
    const daemon = run('start')
    await sleep(settleMs / 2)
    const from = new Date(Date.now() - 90 * 86_400_000).toISOString()
    run('backfill', '--category', 'USDT-FUTURES', '--symbol', 'BTC*', 'ETH*', 'X*', '--interval', '1m', '--from', from)
    await sleep(settleMs / 2)
    if (daemon.pid === undefined || daemon.exitCode !== null) throw new Error('the daemon ended by itself')
    const storedBefore = await countStored(port)
    const { ratios, requestsPerSecond } = await compareWithLoop(daemon.pid, simulator)
    const stored = await countStored(port)
    const inTime = (stored.inTime - storedBefore.inTime) / (stored.all - storedBefore.all)
    const detail = `${requestsPerSecond.toFixed(0)} requests/s`
    return [
      atMost('daemon: processor time, against a loop that throws the same responses away', median(ratios), 2.2, {
        detail,
      }),
      atMost('daemon: resident memory, highest', Math.round(await maxMegabytes(daemon.pid)), 260, { unit: 'MB' }),
      atLeast(
        `daemon: responses that are durable ${durableWithinSeconds * 1000} ms after their last byte`,
        inTime * 100,
        99,
        { unit: '%' },
      ),
    ]
  } finally {
    for (const program of programs) program.process.kill('SIGTERM')
    await Promise.all(programs.map(({ finished }) => finished))
  }
}

async function compareWithLoop(pid: number, simulator: BenchSimulator) {
  await simulator.takeRequests()
  await sleep(roundMs)
  let requests = await sentByDaemon(simulator)
  const ratios: number[] = []
  let sent = 0
  const startedAt = performance.now()
  for (let round = 0; round < rounds; round++) {
    const before = await cpuSeconds(pid)
    const loopSeconds = await sendAgain(simulator.url, requests)
    const used = (await cpuSeconds(pid)) - before
    const own = await sentByDaemon(simulator)
    ratios.push(used / own.length / (loopSeconds / requests.length))
    console.log(
      `daemon and loop: ${used.toFixed(2)} and ${loopSeconds.toFixed(2)} s for ${own.length} and ${requests.length} requests`,
    )
    sent += own.length
    requests = own
  }
  return { ratios, requestsPerSecond: (sent * 1000) / (performance.now() - startedAt) }
}

async function sentByDaemon(simulator: BenchSimulator): Promise<SentRequest[]> {
  return (await simulator.takeRequests()).filter(({ source }) => source.includes(daemonAddress))
}

/** How many live responses were stored since the start, and how many of them in time, as the daemon's metrics say. */
async function countStored(port: number): Promise<{ readonly all: number; readonly inTime: number }> {
  const metric = await readMetrics(`http://127.0.0.1:${port}`)
  return {
    all: metric('market_recorder_store_lag_seconds_count'),
    inTime: metric('market_recorder_store_lag_seconds_bucket', `le="${durableWithinSeconds}"`),
  }
}

/**
 * Sends requests of the daemon once more in the same rhythm, as the least that a client on axios does. Resolves to the
 * processor time that this process took for it, in seconds.
 */
async function sendAgain(url: string, requests: readonly SentRequest[]): Promise<number> {
  const agent = new http.Agent({ keepAlive: true, localAddress: loopAddress })
  const instance = axios.create({ httpAgent: agent, proxy: false })
  const before = process.cpuUsage()
  const startedAt = performance.now()
  const firstAt = requests[0]?.atMs ?? 0
  const waiting = new Set<Promise<void>>()
  let failures = 0
  for (const { atMs, path } of requests) {
    const waitMs = atMs - firstAt - (performance.now() - startedAt)
    if (waitMs > 1) await sleep(waitMs)
    const request = instance.get(`${url}${path}`).then(
      () => undefined,
      () => void failures++,
    )
    waiting.add(request)
    void request.then(() => waiting.delete(request))
  }
  await Promise.all(waiting)
  const { user, system } = process.cpuUsage(before)
  agent.destroy()
  // The loop does not pace itself: the service refuses some requests. A refusal costs the loop less than a response.
  if (failures > requests.length / 20) throw new Error(`${failures} requests of the loop failed`)
  return (user + system) / 1e6
}
