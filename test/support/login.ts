import { randomBytes } from 'node:crypto'
import { openDatabase, type RecorderDatabase } from '../../src/db/database.js'

export interface Login {
  readonly user: string
  readonly url: string
  readonly database: RecorderDatabase
  /** Closes its connections and removes the user. */
  remove(): Promise<void>
}

/** A user with a password who was granted a role, as people and programs log in. */
export async function login(
  created: { readonly url: string; readonly database: RecorderDatabase },
  role: 'market_reader' | 'recorder_writer',
): Promise<Login> {
  const user = `${role}_${randomBytes(4).toString('hex')}`
  const password = randomBytes(16).toString('hex')
  const { pool } = created.database
  await pool.query(`create role ${user} login password '${password}' in role ${role}`)
  const url = new URL(created.url)
  url.username = user
  url.password = password
  const database = openDatabase({ url: url.href })
  return {
    user,
    url: url.href,
    database,
    async remove() {
      await database.close()
      await pool.query(`drop role ${user}`)
    },
  }
}
