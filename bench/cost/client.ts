import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { atMost, type Check, median, printTable } from '../tools/checks.js'
import { startChild } from '../tools/processes.js'

/** The responses whose cost is measured, by operation. */
export const costKinds = ['orderbook', 'fills', 'candles', 'tickers'] as const
export type CostKind = (typeof costKinds)[number]
const contenders = ['recorder', 'floor', 'ccxt'] as const
type Contender = (typeof contenders)[number]

export const category = 'USDT-FUTURES'
export const symbol = 'BTCUSDT'

const kinds: Readonly<Record<CostKind, { query: string; requests: number; rows: string }>> = {
  orderbook: { query: `symbol=${symbol}&limit=50`, requests: 3000, rows: '50 levels' },
  fills: { query: `symbol=${symbol}&limit=100`, requests: 3000, rows: '100' },
  candles: { query: `symbol=${symbol}&interval=1m&limit=1000`, requests: 800, rows: '1,000' },
  tickers: { query: '', requests: 200, rows: '800' },
}

export function pathOf(kind: CostKind): string {
  return `/api/v3/market/${kind}?category=${category}&${kinds[kind].query}`
}

/** One measurement of one contender. */
export interface ContenderOptions {
  readonly contender: Contender
  readonly kind: CostKind
  readonly url: string
  /** Where ccxt is installed. */
  readonly rivals: string
  readonly requests: number
}

/** Processor time of the client and the normalizer for one response, against others on the same bodies, in turns. */
export async function measureClient(rounds: number): Promise<Check[]> {
  const rivals = await installRivals()
  const server = await startChild('cost/bodies', {})
  try {
    const rows: string[][] = []
    const checks: Check[] = []
    for (const kind of costKinds) {
      const times: Record<Contender, number[]> = { recorder: [], floor: [], ccxt: [] }
      const options = { kind, url: String(server.ready), rivals, requests: kinds[kind].requests }
      for (let round = 0; round < rounds; round++)
        for (const contender of contenders) times[contender].push(await microsecondsOf({ contender, ...options }))
      const ratioTo = (other: Contender) =>
        median(times.recorder.map((time, round) => time / (times[other][round] ?? Number.NaN)))
      const [toFloor, toCcxt] = [ratioTo('floor'), ratioTo('ccxt')]
      const cells = contenders.map((contender) => `${median(times[contender]).toFixed(0)} µs`)
      rows.push([`${kind} (${kinds[kind].rows})`, ...cells, toFloor.toFixed(2), toCcxt.toFixed(2)])
      checks.push(
        atMost(`${kind}: processor time of a response, against ccxt`, toCcxt, 1.2),
        atMost(`${kind}: processor time of a response, against axios and JSON.parse alone`, toFloor, 1.5),
      )
    }
    printTable(['response', ...contenders, '/ floor', '/ ccxt'], rows)
    return checks
  } finally {
    await server.close()
  }
}

/** Each measurement has a process of its own. */
async function microsecondsOf(options: ContenderOptions): Promise<number> {
  const child = await startChild('cost/contender', options)
  await child.close()
  const { microseconds, rows } = child.ready as { microseconds: number; rows: number }
  if (rows === 0) throw new Error(`${options.contender} got no rows of ${options.kind}`)
  return microseconds
}

/** Installs ccxt outside the project, once: it is no dependency of it. */
async function installRivals(): Promise<string> {
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'market-recorder', 'rivals')
  if (existsSync(join(folder, 'node_modules', 'ccxt'))) return folder
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'package.json'), '{"private":true}\n')
  // The version that the figures are given for.
  const rival = 'ccxt@4.5'
  console.log(`installing ${rival} in ${folder}`)
  const install = ['install', '--ignore-scripts', '--no-audit', '--no-fund', rival]
  await promisify(execFile)('npm', install, { cwd: folder })
  return folder
}
