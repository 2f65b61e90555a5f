import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { type Running, startProgram } from '../support/program.js'
import { type SimulatorProcess, startSimulatorProcess } from '../support/simulatorProcess.js'

const requests = 20_000
const maxExtraBytes = 250_000_000
/** Responses that the recorder may begin for a connection. The one after the first is not read any more. */
const maxBegun = 2

let folder: string
let simulator: SimulatorProcess
let created: TestDatabase
let recorder: Running
let countFile: string
let port: number
const sockets: net.Socket[] = []

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-pipelining-'))
  simulator = await startSimulatorProcess(['--scale', 'tiny', '--journal'])
  created = await createTestDatabase()
  countFile = join(folder, 'responses')
  await writeFile(countFile, '0')
  const file = join(folder, 'recorder.yaml')
  await writeFile(
    file,
    'collector: { egress: pipelining }\nstreams: { fills: { maxPollSeconds: 1 } }\nserve: { port: 0 }\n',
  )
  recorder = startProgram(['start', '--config', file, '--data-dir', folder, '--allow-overload'], {
    DATABASE_URL: created.url,
    EXCHANGE_BASE_URL: simulator.url,
    NODE_OPTIONS: countingResponses(countFile),
  })
  const [, url = ''] = await recorder.printed(/the page is at http:\/\/127\.0\.0\.1:(\d+)/)
  port = Number(url)
  await askedForFills(5)
})

afterAll(async () => {
  for (const socket of sockets) socket.destroy()
  recorder?.process.kill('SIGTERM')
  await recorder?.finished
  await simulator?.close()
  await created?.drop()
  if (folder !== undefined) await rm(folder, { recursive: true, force: true })
})

async function fillRequests(): Promise<number> {
  return (await simulator.journal()).filter(({ operation }) => operation === 'fills').length
}

/** Resolves when the recorder has asked for fills so many times from now on. */
async function askedForFills(times: number): Promise<void> {
  const before = await fillRequests()
  await vi.waitFor(async () => expect(await fillRequests()).toBeGreaterThanOrEqual(before + times), {
    timeout: 120_000,
    interval: 250,
  })
}

async function peakBytes(): Promise<number> {
  const status = await readFile(`/proc/${recorder.process.pid}/status`, 'utf8')
  return Number(/VmHWM:\s+(\d+) kB/.exec(status)?.[1]) * 1024
}

/** Options of Node with which a program keeps in a file how many HTTP responses it has begun. */
function countingResponses(file: string): string {
  const code = `
    import { writeFileSync } from 'node:fs'
    import { ServerResponse } from 'node:http'
    const { writeHead } = ServerResponse.prototype
    let [begun, noted] = [0, 0]
    ServerResponse.prototype.writeHead = function (...parts) {
      begun++
      return writeHead.apply(this, parts)
    }
    setInterval(() => begun > noted && writeFileSync(${JSON.stringify(file)}, String((noted = begun))), 100).unref()`
  return `--import=data:text/javascript,${encodeURIComponent(code)}`
}

const responsesBegun = async () => Number(await readFile(countFile, 'utf8'))

function connect(): net.Socket {
  const socket = net.connect(port, '127.0.0.1').on('error', () => undefined)
  sockets.push(socket)
  return socket
}

const request = (path: string) => `GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n\r\n`

/** The peak from now on. */
async function forgetPeak(): Promise<void> {
  await writeFile(`/proc/${recorder.process.pid}/clear_refs`, '5')
}

async function costOf(attack: () => Promise<void>): Promise<{ extraBytes: number; begun: number }> {
  await forgetPeak()
  const [bytesBefore, begunBefore] = [await peakBytes(), await responsesBegun()]
  await attack()
  await askedForFills(10)
  return { extraBytes: (await peakBytes()) - bytesBefore, begun: (await responsesBegun()) - begunBefore }
}

/** Writes on, because who does not read learns only from a failed write that the other side has closed. */
async function closed(socket: net.Socket): Promise<void> {
  const writing = setInterval(() => socket.write('x'), 200)
  await new Promise((resolve) => socket.once('close', resolve))
  clearInterval(writing)
}

test.each(['/metrics', '/healthz', '/api/calendar', '/api', '/'])(
  'twenty thousand requests for %s on one connection that reads nothing do not hold up the recording',
  async (path) => {
    const { extraBytes, begun } = await costOf(async () => {
      const socket = connect().pause()
      socket.write(request(path).repeat(requests))
      await closed(socket)
    })
    expect(extraBytes).toBeLessThan(maxExtraBytes)
    expect(begun).toBeLessThanOrEqual(maxBegun)
  },
)

test('who sends several requests at once gets one response, and that the connection ends', async () => {
  const socket = connect()
  socket.write(request('/api/calendar').repeat(5))
  let received = ''
  socket.setEncoding('latin1').on('data', (text: string) => (received += text))
  await new Promise((resolve) => socket.once('close', resolve))
  expect(received.match(/HTTP\/1\.1 200/g)).toHaveLength(1)
  expect(received).toMatch(/connection: close/i)
  expect(received).toMatch(/\}$/)
})

test('hundreds of connections that ask without reading are bounded together', async () => {
  const connections = 400
  const { extraBytes, begun } = await costOf(async () => {
    const paths = ['/metrics', '/api/calendar', '/api', '/healthz']
    const all = Array.from({ length: connections }, (_, i) => {
      const socket = connect().pause()
      socket.write(request(paths[i % paths.length] ?? '').repeat(1_000))
      return socket
    })
    await Promise.race(all.map(closed))
  })
  // What Node has parsed of each connection before it could be closed, at once.
  expect(extraBytes).toBeLessThan(800_000_000)
  expect(begun).toBeGreaterThan(0)
  expect(begun).toBeLessThanOrEqual(connections * maxBegun)
})
