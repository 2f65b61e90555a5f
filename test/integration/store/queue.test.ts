import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import pg from 'pg'
import { createLogger } from '../../../src/runtime/logger.js'
import { type JobQueue, openQueue } from '../../../src/store/queue.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'

interface Work {
  readonly name: string
}
interface Outcome {
  readonly result: string
}

const logger = createLogger('silent')
let test: TestDatabase
let queue: JobQueue<Work, Outcome>
beforeAll(async () => {
  test = await createTestDatabase()
  queue = await openQueue(test.database.db, 'test', { url: test.url, logger })
})
afterAll(async () => {
  await queue.close()
  await test.drop()
})

const job = (name: string, priority = 0) => ({ data: { name }, priority, key: name })

describe('the queue', () => {
  it('gives out the most urgent job first, and keeps its outcome', async () => {
    const ids = await queue.add([job('later', 1), job('first', 2_000_000_000), job('sooner', 10)])
    expect(ids).toHaveLength(3)
    const first = await queue.take()
    expect(first?.data).toEqual({ name: 'first' })
    expect((await queue.pending()).map(({ state, data }) => [data.name, state])).toEqual([
      ['first', 'active'],
      ['sooner', 'created'],
      ['later', 'created'],
    ])
    await queue.complete(first?.id ?? '', { result: 'done' })
    expect(await queue.statuses([first?.id ?? ''])).toMatchObject([{ state: 'completed', output: { result: 'done' } }])
    for (const name of ['sooner', 'later']) {
      const taken = await queue.take()
      expect(taken?.data.name).toBe(name)
      await queue.complete(taken?.id ?? '', { result: name })
    }
    expect(await queue.take()).toBeNull()
  })

  it('does not take a job that waits already', async () => {
    expect(await queue.add([job('once')])).toHaveLength(1)
    expect(await queue.add([job('once')])).toHaveLength(0)
    const taken = await queue.take()
    await queue.complete(taken?.id ?? '', { result: 'done' })
  })

  it('takes up again what a dead worker left, and not what a living one works on', async () => {
    const other = await openQueue<Work, Outcome>(test.database.db, 'test', { url: test.url, logger })
    await queue.add([job('mine', 2), job('theirs', 1)])
    const mine = await queue.take()
    const theirs = await other.take()
    // As if they had been taken a while ago.
    await test.database.pool.query(
      `update recorder_queue.job set started_on = now() - interval '20 s' where name = 'test'`,
    )
    expect(await queue.rescue()).toBe(0)
    // The end of a process is the end of its connections.
    await other.close()
    expect(await queue.rescue()).toBe(1)
    expect(await queue.statuses([mine?.id ?? '', theirs?.id ?? ''])).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ id: mine?.id, state: 'active' }),
        expect.objectContaining({ id: theirs?.id, state: 'retry' }),
      ]),
    )
    await queue.complete(mine?.id ?? '', { result: 'done' })
    await clear()
  })

  it('holds its jobs again after its connections broke', async () => {
    await queue.add([job('held')])
    const held = await queue.take()
    const admin = new pg.Client({ connectionString: test.url })
    await admin.connect()
    await admin.query(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'market-recorder job locks %' and datname = current_database()`,
    )
    await admin.end()
    await test.database.pool.query(
      `update recorder_queue.job set started_on = now() - interval '20 s' where name = 'test'`,
    )
    await expect
      .poll(
        async () =>
          (
            await test.database.pool.query(`select from recorder.lock l join pg_stat_activity s
             on s.pid = l.pid and s.usesysid = l.login and s.application_name = l.session where l.name like 'job %'`)
          ).rowCount,
      )
      .toBe(1)
    expect(await queue.rescue()).toBe(0)
    await queue.complete(held?.id ?? '', { result: 'done' })
  })

  it('gives a job back for later', async () => {
    await queue.add([job('again')])
    const taken = await queue.take()
    await queue.giveBack(taken?.id ?? '', 'the service is away')
    expect(await queue.statuses([taken?.id ?? ''])).toMatchObject([
      { state: 'retry', output: { reason: 'the service is away' } },
    ])
    expect(await queue.take()).toBeNull()
    await clear()
  })
})

async function clear(): Promise<void> {
  await test.database.pool.query(`delete from recorder_queue.job where name = 'test'`)
}
