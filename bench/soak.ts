import { existsSync } from 'node:fs'
import { readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { embeddedFolder, startEmbeddedPostgres } from '../src/server/embedded/embedded.js'
import { lastingPort } from '../src/server/embedded/server.js'
import { startProgram } from '../test/support/program.js'
import { printTable } from './tools/checks.js'
import { configFile, readMetrics, withFolder } from './tools/recorder.js'
import { startSimulatorChild } from './tools/simulator.js'

/** As often as Prometheus usually asks. */
const sampleEveryMs = 5_000
const tenths = 10

/** Code that a recorder loads before its own. Between its own collections a heap grows for minutes, and tells nothing. */
const collectsWhenAsked = `import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { isMainThread } from 'node:worker_threads'
import { renameSync, writeFileSync } from 'node:fs'
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc')
if (isMainThread) process.on('SIGUSR2', () => {
  collect()
  writeFileSync(process.env.MEMORY_FILE + '.new', JSON.stringify(process.memoryUsage()))
  renameSync(process.env.MEMORY_FILE + '.new', process.env.MEMORY_FILE)
})`

/** Figures by their names. */
type Figures = Readonly<Record<string, number>>

/**
 * Records the live market with the default configuration, and says at each tenth of the time what the recorder holds.
 * At the end it names what never fell in the second half, and is more than before. Linux only.
 */
export async function benchSoak(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({ args: [...argv], options: { minutes: { type: 'string', default: '120' } } })
  const rows = await withFolder('soak', (folder) => watchRecorder(folder, (Number(values.minutes) * 60_000) / tenths))
  const names = [...new Set(rows.flatMap((row) => Object.keys(row)))].filter((name) => rows.some((row) => row[name]))
  printTable(
    ['at each tenth', ...rows.map((_, index) => String(index + 1)), ''],
    names.map((name) => {
      const line = rows.map((row) => row[name] ?? 0)
      return [name, ...line.map((value) => value.toLocaleString('en', { maximumFractionDigits: 2 })), verdictOf(line)]
    }),
  )
  return 0
}

function verdictOf(line: readonly number[]): string {
  const half = line.slice(line.length / 2)
  const falls = half.some((value, index) => value < (half[index - 1] ?? value))
  return falls || half.at(-1) === half[0] ? '' : 'grows'
}

async function watchRecorder(folder: string, tenthMs: number): Promise<Figures[]> {
  const simulator = await startSimulatorChild({ scale: 'live' })
  const port = await lastingPort()
  const config = await configFile(folder, 'soak', { database: { dataDir: folder }, serve: { port } })
  const memoryFile = join(folder, 'memory.json')
  const recorder = startProgram(['start', '--config', config], {
    EXCHANGE_BASE_URL: simulator.url,
    LOG_LEVEL: 'warn',
    MEMORY_FILE: memoryFile,
    NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(collectsWhenAsked)}`,
  })
  const ended = recorder.finished.then(({ stderr }) => {
    throw new Error(`the recorder ended by itself: ${stderr}`)
  })
  ended.catch(() => undefined)
  try {
    // It listens when its database is there. This process joins the server.
    while ((await Promise.race([takeSamples(port, sampleEveryMs), ended])).length === 0);
    const server = await startEmbeddedPostgres({ dataDir: embeddedFolder(folder) })
    try {
      const rows: Figures[] = []
      while (rows.length < tenths) {
        const samples = await Promise.race([takeSamples(port, tenthMs), ended])
        recorder.process.kill('SIGUSR2')
        const memory = await Promise.race([takeMemory(memoryFile), ended])
        const row = { ...figuresOf(samples, memory), ...(await readServer(server.url)) }
        rows.push(row)
        console.log(`${new Date().toISOString()} ${rows.length}/${tenths} ${JSON.stringify(row)}`)
      }
      return rows
    } finally {
      await server.stop()
    }
  } finally {
    recorder.process.kill('SIGTERM')
    await recorder.finished
    await simulator.close()
  }
}

/** Takes what the recorder has written of its memory after a collection. */
async function takeMemory(file: string): Promise<NodeJS.MemoryUsage> {
  while (!existsSync(file)) await sleep(100)
  const memory = JSON.parse(await readFile(file, 'utf8')) as NodeJS.MemoryUsage
  await rm(file)
  return memory
}

/** Reads the recorder's metrics for some time. Resolves to nothing if it does not serve them yet. */
async function takeSamples(port: number, forMs: number): Promise<Figures[]> {
  const samples: Figures[] = []
  for (const untilMs = performance.now() + forMs; performance.now() < untilMs; await sleep(sampleEveryMs)) {
    const metric = await readMetrics(`http://127.0.0.1:${port}`).catch(() => null)
    if (metric === null) continue
    samples.push({
      atMs: performance.now(),
      resident: metric('process_resident_memory_bytes'),
      descriptors: metric('process_open_fds'),
      processor: metric('process_cpu_seconds_total'),
      lag: metric('nodejs_eventloop_lag_max_seconds'),
      responses: metric('market_recorder_stream_responses_total'),
      failures: metric('market_recorder_stream_failures_total'),
    })
  }
  return samples
}

function figuresOf(samples: readonly Figures[], memory: NodeJS.MemoryUsage): Figures {
  const least = (name: string) => Math.min(...samples.map((sample) => sample[name] ?? Number.NaN))
  const most = (name: string) => Math.max(...samples.map((sample) => sample[name] ?? Number.NaN))
  const gained = (name: string) => most(name) - least(name)
  return {
    'heap after a collection, MB': memory.heapUsed / 1e6,
    'external memory after it, MB': memory.external / 1e6,
    'resident memory, highest, MB': most('resident') / 1e6,
    'file descriptors, fewest': least('descriptors'),
    "share of a core, the server's not counted": gained('processor') / (gained('atMs') / 1000),
    'longest turn of the loop, ms': most('lag') * 1000,
    'responses, thousands': gained('responses') / 1000,
    'failed requests': gained('failures'),
  }
}

/**
 * The recorder names no statement, so the server keeps none prepared, and no other session could count them. What a
 * server process keeps for a connection is its private memory.
 */
async function readServer(url: string): Promise<Figures> {
  const client = new pg.Client({ connectionString: url })
  try {
    await client.connect()
    const text = `select pid from pg_stat_activity where application_name like 'market-recorder%'`
    const sessions = (await client.query<{ pid: number }>(text)).rows
    const memory = await Promise.all(sessions.map(({ pid }) => privateMegabytes(pid)))
    const tables = await client.query<{ name: string; rows: string }>(countRows)
    return {
      'connections to the server': sessions.length,
      "private memory of a connection's server process, highest, MB": Math.max(...memory),
      ...Object.fromEntries(tables.rows.map(({ name, rows }) => [`rows of ${name}`, Number(rows)])),
    }
  } finally {
    await client.end()
  }
}

const countRows = `select 'recorder.' || relname as name, (xpath('/row/c/text()',
    query_to_xml('select count(*) as c from recorder.' || quote_ident(relname), false, true, '')))[1]::text as rows
  from pg_class where relnamespace = 'recorder'::regnamespace and relkind = 'r' order by relname`

async function privateMegabytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/RssAnon:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}
