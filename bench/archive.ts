import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { createLogger } from '../src/runtime/logger.js'
import { openDatabase, type RecorderDatabase } from '../src/store/db/database.js'
import { migrateToLatest } from '../src/store/db/migrate.js'
import { startEmbeddedPostgres } from '../src/store/embedded/embedded.js'
import { archiveFiles, loadBooks, loadFills } from './archiveData.js'
import type { Check } from './figures.js'
import { loadCandles } from './sqlData.js'

const program = fileURLToPath(new URL('../program/main.js', import.meta.url))

/** What an archive takes of disk, memory and time, and what is left of it when its process is killed again and again. */
export async function benchArchive(argv: readonly string[]): Promise<number> {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      fills: { type: 'string', default: '5000000' },
      candles: { type: 'string', default: '500000' },
      books: { type: 'string', default: '20000' },
      kills: { type: 'string', default: '20' },
    },
  })
  const root = await mkdtemp(join(tmpdir(), 'market-recorder-bench-archive-'))
  const server = await startEmbeddedPostgres({ dataDir: join(root, 'postgres'), logger: createLogger('warn') })
  const database = openDatabase({ url: server.url })
  try {
    await migrateToLatest(database)
    const bench = { root, url: server.url, database }
    const checks = [...(await measureSize(bench, values)), ...(await killAgainAndAgain(bench, Number(values.kills)))]
    const table = new Table({ head: ['what', 'measured', 'wanted', ''], style: { head: [], border: [] } })
    for (const { what, measured, target, isMet } of checks)
      table.push([what, measured, target, isMet ? 'ok' : 'MISSED'])
    console.log(table.toString())
    return checks.every(({ isMet }) => isMet) ? 0 : 1
  } finally {
    await database.close()
    await server.stop()
    await rm(root, { recursive: true, force: true })
  }
}

interface Bench {
  readonly root: string
  readonly url: string
  readonly database: RecorderDatabase
}

async function measureSize(
  bench: Bench,
  sizes: { readonly fills: string; readonly candles: string; readonly books: string },
): Promise<Check[]> {
  const { pool } = bench.database
  console.log(`loading ${sizes.fills} fills of a day, ${sizes.candles} candles and ${sizes.books} books of 100 levels`)
  await loadFills(pool, '2026-02-01', Number(sizes.fills))
  await loadCandles(pool, Number(sizes.candles))
  await loadBooks(pool, '2026-02-01', Number(sizes.books))
  await pool.query('vacuum analyze market.fills, market.candles, market.order_books')
  const checks: Check[] = []
  for (const [table, maxBytes] of [
    ['candles', 20],
    ['order_books', 180],
    ['fills', null],
  ] as const) {
    const config = await configure(
      bench,
      table,
      `archive: { folder: '${join(bench.root, table)}', tables: [${table}] }`,
    )
    const { seconds, peakMb } = await run(bench, config, ['archive'])
    const { rows, bytes } = await archiveFiles(join(bench.root, table))
    const perRow = bytes / rows
    checks.push({
      what: `${table}: bytes a row`,
      measured: perRow.toFixed(1),
      target: maxBytes === null ? 'none' : `≤ ${maxBytes}`,
      isMet: maxBytes === null || perRow <= maxBytes,
    })
    if (table !== 'fills') continue
    const copySeconds = await timed(() => pool.query(`copy market.fills to stdout`))
    checks.push(
      {
        what: `fills: memory of the process, ${rows} rows of a day`,
        measured: `${peakMb} MB`,
        target: '≤ 300 MB',
        isMet: peakMb <= 300,
      },
      {
        what: 'fills: time, read back included, as a multiple of COPY',
        measured: (seconds / copySeconds).toFixed(1),
        target: 'none',
        isMet: true,
      },
      { what: 'fills: rows a second', measured: Math.round(rows / seconds).toString(), target: 'none', isMet: true },
    )
  }
  await pool.query('truncate market.fills, market.candles, market.order_books, recorder.archived_day')
  return checks
}

/** Days are archived and removed from the database by a process that is killed at random moments. */
async function killAgainAndAgain(bench: Bench, kills: number): Promise<Check[]> {
  const { pool } = bench.database
  const folder = join(bench.root, 'killed')
  for (let day = 1; day <= 28; day++) await loadFills(pool, `2026-01-${String(day).padStart(2, '0')}`, 20_000)
  const config = await configure(
    bench,
    'killed',
    `archive: { folder: '${folder}', tables: [fills] }\nstorage: { fills: { retentionDays: 1 } }`,
  )
  const sums = async () =>
    JSON.stringify(
      (await pool.query(`select count(*), sum(price * size), sum(hashtext(exec_id || ts)) from market.fills`)).rows,
    )
  const before = await sums()
  let problems = 0
  let killed = 0
  for (let i = 0; i < kills; i++) {
    const { isKilled } = await run(bench, config, ['archive', '--remove'], 600 + Math.random() * 2_400)
    if (isKilled) killed++
    const { output } = await run(bench, config, ['archive', 'verify', '--offline', '--json'])
    const found = (JSON.parse(output) as { problems: string[] }[]).flatMap((day) => day.problems)
    problems += found.filter((problem) => !problem.includes('belongs to no manifest')).length
  }
  await run(bench, config, ['archive', '--remove'])
  const { output } = await run(bench, config, ['archive', 'verify', '--offline', '--json'])
  const last = (JSON.parse(output) as { problems: string[] }[]).flatMap((day) => day.problems)
  const left = Number((await pool.query<{ count: number }>('select count(*) from market.fills')).rows[0]?.count)
  await run(bench, config, ['archive', 'restore'])
  const isSame = (await sums()) === before
  return [
    { what: 'runs that were killed', measured: `${killed} of ${kills}`, target: 'most', isMet: killed > kills / 2 },
    { what: 'visible days that were not whole', measured: `${problems}`, target: '0', isMet: problems === 0 },
    {
      what: 'files that belong to nothing, in the end',
      measured: `${last.length}`,
      target: '0',
      isMet: last.length === 0,
    },
    { what: 'rows left in the database, in the end', measured: `${left}`, target: '0', isMet: left === 0 },
    { what: 'all rows equal when restored', measured: isSame ? 'yes' : 'no', target: 'yes', isMet: isSame },
  ]
}

async function configure({ root }: Bench, name: string, text: string): Promise<string> {
  const file = join(root, `${name}.yaml`)
  await writeFile(file, `${text}\n`)
  return file
}

interface Run {
  readonly seconds: number
  readonly peakMb: number
  readonly output: string
  readonly isKilled: boolean
}

async function run({ url }: Bench, config: string, args: readonly string[], killAfterMs?: number): Promise<Run> {
  const startedAt = performance.now()
  const child = spawn(process.execPath, [program, ...args, '--config', config], {
    env: { ...process.env, DATABASE_URL: url },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let output = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text))
  let peakMb = 0
  const ended = new AbortController()
  const watch = (async () => {
    while (!ended.signal.aborted) {
      const status = await readFile(`/proc/${child.pid}/status`, 'utf8').catch(() => '')
      peakMb = Math.max(peakMb, Math.round(Number(/VmHWM:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024))
      await sleep(100)
    }
  })()
  const timer = killAfterMs === undefined ? undefined : setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  await new Promise((resolve) => child.on('close', resolve))
  clearTimeout(timer)
  ended.abort()
  const seconds = (performance.now() - startedAt) / 1000
  await watch
  return { seconds, peakMb, output, isKilled: child.signalCode === 'SIGKILL' }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const startedAt = performance.now()
  await work()
  return (performance.now() - startedAt) / 1000
}
