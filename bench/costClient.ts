import { type ChildProcess, execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { access, mkdir, writeFile } from 'node:fs/promises'
import { homedir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import Table from 'cli-table3'
import { type Check, median } from './figures.js'

const kinds = ['orderbook', 'fills', 'candles', 'tickers'] as const
type Kind = (typeof kinds)[number]
const contenders = ['recorder', 'floor', 'ccxt', 'bitget-api'] as const
type Contender = (typeof contenders)[number]

const requestsOf: Record<Kind, number> = { orderbook: 3000, fills: 3000, candles: 800, tickers: 200 }
const rowsOf: Record<Kind, string> = { orderbook: '50 levels', fills: '100', candles: '1,000', tickers: '800' }

/** What users would take instead, in the versions that the figures are given for. */
const rivals = ['ccxt@4.5', 'bitget-api@3.2']

/**
 * Processor time of the client and the normalizer for one response, against other clients on the same bodies, each in a
 * process of its own, in turns.
 */
export async function measureClient(rounds: number): Promise<Check[]> {
  const folder = await installRivals()
  const server = fork(new URL('costBodies.js', import.meta.url), { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
  try {
    const [url] = (await once(server, 'message')) as [string]
    const table = new Table({ head: ['response', ...contenders, '/ floor', '/ ccxt', '/ bitget-api'] })
    const checks: Check[] = []
    for (const kind of kinds) {
      const times: Record<Contender, number[]> = { recorder: [], floor: [], ccxt: [], 'bitget-api': [] }
      for (let round = 0; round < rounds; round++) {
        for (const contender of contenders) times[contender].push(await timeOf(contender, kind, url, folder))
      }
      const ratio = (other: Contender) => {
        const others = times[other]
        return median(times.recorder.map((time, round) => time / (others[round] ?? Number.NaN)))
      }
      const cells = contenders.map((contender) => `${median(times[contender]).toFixed(0)} µs`)
      const ratios = (['floor', 'ccxt', 'bitget-api'] as const).map((other) => ratio(other).toFixed(2))
      table.push([`${kind} (${rowsOf[kind]})`, ...cells, ...ratios])
      checks.push(
        check(`${kind}: processor time of a response, against ccxt`, ratio('ccxt'), 1.2),
        check(`${kind}: processor time of a response, against axios and JSON.parse alone`, ratio('floor'), 1.5),
      )
    }
    console.log(table.toString())
    return checks
  } finally {
    server.disconnect()
  }
}

function check(what: string, measured: number, most: number): Check {
  return { what, measured: measured.toFixed(2), target: `at most ${most}`, isMet: measured <= most }
}

async function timeOf(contender: Contender, kind: Kind, url: string, folder: string): Promise<number> {
  const child: ChildProcess = fork(
    new URL('costContender.js', import.meta.url),
    [
      '--contender',
      contender,
      '--kind',
      kind,
      '--url',
      url,
      '--rivals',
      folder,
      '--requests',
      String(requestsOf[kind]),
    ],
    { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] },
  )
  const ended = once(child, 'exit').then(([code]) => {
    throw new Error(`${contender} ended with ${String(code)} before it had measured ${kind}`)
  })
  const [{ microseconds, rows }] = (await Promise.race([once(child, 'message'), ended])) as [
    { microseconds: number; rows: number },
  ]
  ended.catch(() => undefined)
  if (rows === 0) throw new Error(`${contender} got no rows of ${kind}`)
  return microseconds
}

/** Installs the other clients outside the project, once: they are no dependency of it. */
async function installRivals(): Promise<string> {
  const folder = join(process.env['XDG_CACHE_HOME'] ?? join(homedir(), '.cache'), 'market-recorder', 'rivals')
  const installed = await access(join(folder, 'node_modules', 'bitget-api')).then(
    () => true,
    () => false,
  )
  if (installed) return folder
  await mkdir(folder, { recursive: true })
  await writeFile(join(folder, 'package.json'), '{"private":true}\n')
  console.log(`installing ${rivals.join(' and ')} in ${folder}`)
  await promisify(execFile)('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund', ...rivals], {
    cwd: folder,
  })
  return folder
}
