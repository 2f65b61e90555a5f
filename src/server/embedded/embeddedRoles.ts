import { type ChildProcess, spawn } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { clusterPath, lastError, serverEnvironment } from './embeddedProcess.js'
import type { Account } from './embeddedAccount.js'

/**
 * The logins of the embedded server. `recorder` owns the database and can create roles, which migrations need, and nothing
 * beyond: no statement of its sessions reads or writes files or ends other people's sessions. `reader` is a member of
 * market_reader: what people ask (query, export, the page) runs as it. The superuser `postgres` has no password, so that
 * nobody can log in as it; to become it, stop the server and run `postgres --single`.
 */
export const logins = { owner: 'recorder', reader: 'reader', superuser: 'postgres' } as const

export interface Passwords {
  readonly owner: string
  readonly reader: string
}

/** People who ask at once; more would take connections from the recording. */
const maxReaders = 12

/** Also for databases that are created later. Large objects and messages in the log are nothing that a reader has a use for. */
const closeToPublic = `
  do $$
  declare
    name text;
  begin
    for name in select datname from pg_database where datname <> 'template0' loop
      execute format('revoke temporary on database %I from public', name);
    end loop;
    for name in
      select oid::regprocedure::text from pg_proc
      where pronamespace = 'pg_catalog'::regnamespace
        and proname in ('lo_creat', 'lo_create', 'lo_from_bytea', 'pg_logical_emit_message')
    loop
      execute format('revoke execute on function %s from public', name);
    end loop;
  end
  $$`

/** Run by the superuser. */
function roleStatements(passwords: Passwords): string[] {
  const { owner } = logins
  return [
    // Thousands of rounds make a password that somebody chose harder to guess. These are random, and every connection
    // would pay for the rounds.
    'set scram_iterations = 1',
    `do $$
    begin
      if to_regrole('${owner}') is null then create role ${owner}; end if;
      if to_regrole('market_reader') is null then create role market_reader; end if;
      if to_regrole('recorder_writer') is null then create role recorder_writer; end if;
      if to_regrole('${logins.reader}') is null then create role ${logins.reader} in role market_reader; end if;
    end
    $$`,
    `alter role ${owner} login createdb createrole password '${passwords.owner}'`,
    `alter role ${logins.reader} login connection limit ${maxReaders} password '${passwords.reader}'`,
    // So that it can grant them, and end the session of somebody whose query is in the way.
    `grant market_reader, recorder_writer, ${logins.reader} to ${owner} with admin option`,
    'revoke connect on database postgres, template1 from public',
    `grant connect on database postgres, template1 to ${owner}`,
  ]
}

interface NewCluster {
  readonly account: Account
  /** The server's program. */
  readonly program: string
  /** Of the cluster, which nobody uses yet. */
  readonly directory: string
  readonly database: string
  readonly passwords: Passwords
}

/** Sets up the roles of a new cluster, by the server's single-user mode: no login is needed, and none is left over. */
export async function setUpRoles({ account, program, directory, database, passwords }: NewCluster): Promise<void> {
  const statements = [
    `alter role ${logins.superuser} password null`,
    ...roleStatements(passwords),
    closeToPublic,
    `create database ${database} owner ${logins.owner}`,
    `revoke temporary on database ${database} from public`,
  ]
  const cluster = openSync(directory, 'r')
  let child: ChildProcess
  try {
    const path = clusterPath(directory, account)
    child = spawn(program, ['--single', '-j', '-c', 'exit_on_error=on', '-D', path, 'template1'], {
      cwd: '/',
      stdio: ['pipe', 'ignore', 'pipe', 'ignore', cluster],
      env: serverEnvironment(),
      ...account,
    })
  } finally {
    closeSync(cluster)
  }
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (output += text))
  child.stdin?.on('error', () => undefined)
  // A statement ends with a semicolon and an empty line.
  child.stdin?.end(statements.map((statement) => `${statement};\n\n`).join(''))
  const code = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  if (code === 0 && lastError(output) === undefined) return
  throw new Error(`setting up the embedded database failed: ${lastError(output) ?? `postgres ended with ${code}`}`)
}
