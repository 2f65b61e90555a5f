import { mkdir, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import { recordInstruments } from '../../../src/ledger/instruments.js'
import { acquireLease, type Lease } from '../../../src/lease/lease.js'
import { systemClock } from '../../../src/runtime/clock.js'
import { type Simulator, startSimulator } from '../../../src/simulator/server.js'
import { createEmptyDatabase, createTestDatabase, type TestDatabase } from '../../support/database.js'
import { anInstrument } from '../../support/marketRows.js'
import { runProgram, startProgram } from '../../support/program.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const folder = temporaryFolder('right')
const patience = { timeout: 120_000, interval: 50 }
const egress = 'one address'
let simulator: Simulator
let database: TestDatabase

beforeAll(async () => {
  simulator = await startSimulator({ scale: 'tiny', journal: true })
})
afterAll(() => simulator.close())
beforeEach(async () => {
  database = await createTestDatabase()
})
afterEach(() => database.drop())

const requests = () => simulator.control.journal().length
/** Number of requests that reach the service during `work`. */
async function requestsDuring(work: () => Promise<unknown>): Promise<number> {
  const before = requests()
  await work()
  return requests() - before
}

let count = 0
/** A configuration in a folder of its own, in which the data folder does not exist yet. */
async function configured(streams: object = {}): Promise<{ readonly file: string; readonly dataDir: string }> {
  const own = join(folder, String(++count))
  await mkdir(own)
  const [file, dataDir] = [join(own, 'recorder.json'), join(own, 'data')]
  const limits = streams === tooMuch ? { perSecond: { orderbook: 1 } } : {}
  const config = {
    database: { dataDir },
    exchange: { limits },
    collector: { egress },
    serve: { enabled: false },
    streams,
  }
  await writeFile(file, JSON.stringify(config))
  return { file, dataDir }
}
const tooMuch = { orderBooks: { everySeconds: 1, select: { busiest: 'all' } } }

const env = (url = database.url) => ({ DATABASE_URL: url, EXCHANGE_BASE_URL: simulator.url })
const own = () => acquireLease(database.url, egress, { logger: pino({ level: 'silent' }), clock: systemClock, folder })
const listMany = (symbols: number) =>
  recordInstruments(
    database.database.db,
    'SPOT',
    Array.from({ length: symbols }, (_, place) => anInstrument({ symbol: `S${place}USDT` })),
    Date.now(),
  )

describe('beside a recorder that has the right to send', () => {
  let owner: Lease
  beforeEach(async () => {
    owner = await own()
  })
  afterEach(() => owner.release())

  test('no command sends anything, and each goes by the lists in the database', async () => {
    await listMany(7)
    const { file } = await configured()
    const sent = await requestsDuring(async () => {
      const plan = await runProgram(['plan', '--config', file], env())
      expect(plan).toMatchObject({ exitCode: 0, stderr: '' })
      expect(plan.stdout).toContain('Instruments in the database: SPOT 7,')
      expect(plan.stdout).toContain(`the service was not asked: a recorder of ${egress} is at work`)
      const doctor = await runProgram(['doctor', '--config', file], env())
      expect(doctor.stdout).toMatch(/^ok +service +not asked: a recorder of one address is at work$/m)
      expect(doctor.stdout).toMatch(/^ok +limits .* for its instruments$/m)
      const out = join(folder, `${count}.init.yaml`)
      const init = await runProgram(['init', '--yes', '--out', out], { ...env(), COLLECTOR_EGRESS: egress })
      expect(init).toMatchObject({ exitCode: 0, stderr: '' })
      expect(init.stdout).toContain('Instruments in the database: SPOT 7,')
    })
    expect(sent).toBe(0)
  })

  test('a recorder in a crash loop sends nothing', async () => {
    const { file } = await configured()
    const sent = await requestsDuring(async () => {
      for (const afterMs of [0, 300, 800, 0, 1_500]) {
        const start = startProgram(['start', '--config', file], env())
        await start.printed(/another recorder owns the budget/)
        await sleep(afterMs)
        start.process.kill('SIGKILL')
        await start.finished
      }
    })
    expect(sent).toBe(0)
  })

  test('a standby that the database shows to ask too much ends at once, without a request', async () => {
    await listMany(7)
    const { file } = await configured(tooMuch)
    const sent = await requestsDuring(async () => {
      const start = await runProgram(['start', '--config', file], env())
      expect(start.exitCode).toBe(1)
      expect(start.stderr).toContain('the configuration needs more than the limits of the service allow')
    })
    expect(sent).toBe(0)
  })

  test('a standby does not end when it takes over, though it then learns that it asks too much', async () => {
    const { file } = await configured(tooMuch)
    const start = startProgram(['start', '--config', file], env())
    await start.printed(/another recorder owns the budget/)
    await sleep(2_000)
    await owner.release()
    await start.printed(/collecting /)
    start.process.kill('SIGTERM')
    expect((await start.finished).exitCode).toBe(0)
    const alone = await runProgram(['start', '--config', file], env())
    expect(alone.exitCode).toBe(1)
    expect(alone.stderr).toContain('the configuration needs more than the limits of the service allow')
  })
})

test('commands beside another command say nothing of a recorder, and a backfill how to go on after Ctrl-C', async () => {
  await listMany(1)
  const options = { logger: pino({ level: 'silent' }), clock: systemClock, folder, serviceNow: () => Date.now() }
  const other = await acquireLease(database.url, egress, { ...options, giveWay: () => undefined })
  try {
    const { file } = await configured()
    const what = ['--category', 'SPOT', '--symbol', 'S0USDT', '--interval', '1m', '--from', '2026-01-01']
    const following = startProgram(['backfill', '--config', file, ...what], env())
    await following.printed(/another command of this host sends/)
    following.process.kill('SIGINT')
    const { exitCode, stdout, stderr } = await following.finished
    expect([exitCode, stdout]).toEqual([1, expect.stringMatching(/^candles left +[1-9]/m)])
    expect(stderr).toMatch(/^stopped; continue with: npx market-recorder backfill /m)
    expect(stderr).not.toContain('the recorder on this host')
    const plan = await runProgram(['plan', '--config', file], env())
    expect(plan.stdout).toContain(`the service was not asked: a command of ${egress} is at work`)
  } finally {
    await other.release()
  }
})

describe('where nobody has the right to send', () => {
  test.each(['plan', 'doctor'])('%s takes it for as long as it asks', async (command) => {
    const { file } = await configured()
    const before = requests()
    simulator.control.setFaults([{ kind: 'latency', minMs: 1_500, maxMs: 1_500 }])
    try {
      const asking = runProgram([command, '--config', file], env())
      await vi.waitFor(() => expect(requests()).toBeGreaterThan(before), patience)
      const startedMs = performance.now()
      const next = await own()
      // It had to wait, since the command gave back what it had.
      expect(performance.now() - startedMs).toBeGreaterThan(50)
      await next.release()
      expect((await asking).stdout).toMatch(/listed by the service|responded in/)
    } finally {
      simulator.control.setFaults([])
    }
  })

  test('a command on a bare machine asks by a lock file, and leaves nothing behind', async () => {
    const { file, dataDir } = await configured()
    const seen = new Set<string>()
    const looking = setInterval(
      () =>
        void readdir(dataDir).then(
          (names) => names.forEach((name) => seen.add(name.replace(/\d.*/, ''))),
          () => undefined,
        ),
      5,
    )
    for (const command of ['plan', 'doctor']) {
      const sent = await requestsDuring(() =>
        runProgram([command, '--config', file], { EXCHANGE_BASE_URL: simulator.url }),
      )
      expect(sent).toBeGreaterThan(5)
    }
    clearInterval(looking)
    expect([...seen]).toEqual(['sending.'])
    await expect(readdir(dataDir)).rejects.toThrow('ENOENT')
  })

  test('on a bare machine init, doctor and start follow on, and plan then asks by the database', async () => {
    const own = join(folder, `bare ${++count}`)
    await mkdir(own)
    const [file, dataDir] = [join(own, 'recorder.yaml'), join(own, 'data')]
    const bare = { SERVE_PORT: '0' }
    const flags = ['--yes', '--out', file, '--url', simulator.url, '--data-dir', dataDir, '--record', 'fills']
    const init = await runProgram(['init', ...flags], bare)
    expect(init).toMatchObject({ exitCode: 0, stderr: '' })
    expect(init.stdout).toContain('Instruments listed by the service')
    const doctor = await runProgram(['doctor', '--config', file], bare)
    expect(doctor.stdout).toMatch(/^ok +service +.* responded in/m)
    expect(doctor.stdout).toMatch(/^ok +database +none yet; /m)
    expect(await readdir(own)).toEqual(['recorder.yaml'])
    const start = startProgram(['start', '--config', file], bare)
    await start.printed(/collecting /)
    const beside = await runProgram(['plan', '--config', file], bare)
    expect(beside.stdout).toContain('Instruments in the database')
    start.process.kill('SIGTERM')
    expect((await start.finished).exitCode).toBe(0)
    const alone = await runProgram(['plan', '--config', file], bare)
    expect(alone.stdout).toContain('Instruments listed by the service')
  })

  test('so it does where a database is configured that no recorder has prepared yet', async () => {
    const empty = await createEmptyDatabase()
    try {
      const { file } = await configured()
      const plan = await runProgram(['plan', '--config', file], env(empty.url))
      expect(plan.stdout).toContain('Instruments listed by the service')
    } finally {
      await empty.drop()
    }
  })

  test('where the database is out of reach, commands say that they did not ask', async () => {
    const { file } = await configured()
    const away = env('postgresql://nobody:none@127.0.0.1:9/none')
    const sent = await requestsDuring(async () => {
      const plan = await runProgram(['plan', '--config', file], away)
      expect(plan).toMatchObject({ exitCode: 0 })
      expect(plan.stderr).toMatch(
        /^warning: the service was not asked: the database does not say who may send: .*assumed/,
      )
      const doctor = await runProgram(['doctor', '--config', file], away)
      expect(doctor.stdout).toMatch(/^WARN +service +not asked: the database does not say who may send: /m)
      const out = join(folder, `${count}.init.yaml`)
      expect(await runProgram(['init', '--yes', '--out', out], away)).toMatchObject({ exitCode: 0 })
    })
    expect(sent).toBe(0)
  })
})
