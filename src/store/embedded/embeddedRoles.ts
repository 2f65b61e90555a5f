import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import type pg from 'pg'
import { clusterPath, lastError, serverEnvironment } from './embeddedProcess.js'
import type { Account } from './embeddedAccount.js'
import { withClient } from './embeddedClient.js'

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

/** Run by the superuser. `owner` is the name of the role that owns the database. */
function roleStatements(owner: string, passwords: Passwords): string[] {
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
    ...roleStatements(logins.owner, passwords),
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

/** Until everything is handed over. */
const nextOwner = 'recorder_next'

const handOver = `
  do $$
  declare
    item record;
  begin
    for item in
      select nspname from pg_namespace
      where nspowner = 10 and nspname !~ '^pg_' and nspname not in ('information_schema', 'public')
    loop
      execute format('alter schema %I owner to ${nextOwner}', item.nspname);
    end loop;
    for item in
      select c.oid::regclass as name, case c.relkind
          when 'v' then 'view' when 'm' then 'materialized view' when 'S' then 'sequence' else 'table' end as kind
      from pg_class c join pg_namespace n on n.oid = c.relnamespace
      where c.relowner = 10 and c.relkind in ('r', 'p', 'v', 'm', 'S')
        and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
        -- Sequences of columns follow their tables, and what extensions brought stays theirs.
        and not exists (
          select from pg_depend d where d.classid = 'pg_class'::regclass and d.objid = c.oid
            and (d.deptype = 'e' or c.relkind = 'S' and d.deptype in ('a', 'i')))
    loop
      execute format('alter %s %s owner to ${nextOwner}', item.kind, item.name);
    end loop;
    for item in
      select p.oid::regprocedure as name from pg_proc p join pg_namespace n on n.oid = p.pronamespace
      where p.proowner = 10 and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
        and not exists (
          select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
    loop
      execute format('alter routine %s owner to ${nextOwner}', item.name);
    end loop;
    for item in
      select t.oid::regtype as name from pg_type t join pg_namespace n on n.oid = t.typnamespace
      left join pg_class c on c.oid = t.typrelid
      where t.typowner = 10 and (t.typtype in ('d', 'e', 'r') or c.relkind = 'c')
        and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
    loop
      execute format('alter type %s owner to ${nextOwner}', item.name);
    end loop;
    execute format('alter database %I owner to ${nextOwner}', current_database());
  end
  $$`

/**
 * Earlier versions recorded as the superuser of the cluster, which cannot become less than that. It gets another name, and a
 * new `recorder` all that it had. Returns whether there was anything to do. Several processes may do this at once.
 *
 * @param urlOf the connection string of a database for a login with a password
 */
export async function replaceSuperuser(
  urlOf: (database: string, user: string, password: string) => string,
  passwords: Passwords,
): Promise<boolean> {
  return withClient({ connectionString: urlOf('postgres', logins.owner, passwords.owner) }, async (before) => {
    const { rows } = await before.query<{ isSuper: boolean }>(
      `select rolsuper as "isSuper" from pg_roles where rolname = current_user`,
    )
    if (rows[0]?.isSuper !== true) return false
    // A session cannot rename its own role.
    const name = `recorder_setup_${randomBytes(4).toString('hex')}`
    const password = randomBytes(24).toString('hex')
    await before.query(`create role ${name} superuser login password '${password}' valid until 'tomorrow'`)
    try {
      return await withClient({ connectionString: urlOf('postgres', name, password) }, (client) =>
        changeOwner(client, passwords, (database) => urlOf(database, name, password)),
      )
    } finally {
      await before.query(`drop role ${name}`)
    }
  })
}

/** Interrupted, it begins anew at the next start: until the last step the superuser is the owner as before. */
async function changeOwner(
  client: pg.Client,
  passwords: Passwords,
  urlOf: (database: string) => string,
): Promise<boolean> {
  const areRolesThere = await unlessDone(client, async () => {
    for (const statement of roleStatements(nextOwner, passwords)) await client.query(statement)
  })
  if (!areRolesThere) return false
  return unlessDone(client, async () => {
    const { rows } = await client.query<{ name: string }>(
      `select datname as name from pg_database where datallowconn and not datistemplate and datname <> 'postgres'`,
    )
    for (const { name } of rows) {
      await withClient({ connectionString: urlOf(name) }, async (database) => {
        await database.query(handOver)
        await database.query(closeToPublic)
      })
    }
    await client.query(`alter role ${logins.owner} rename to ${logins.superuser}`)
    await client.query(`alter role ${nextOwner} rename to ${logins.owner}`)
    await client.query(`alter role ${logins.superuser} password null`)
  })
}

/** Runs `work` in a transaction that no other process is in; false when another one has done everything. */
async function unlessDone(client: pg.Client, work: () => Promise<void>): Promise<boolean> {
  await client.query('begin')
  await client.query('lock table pg_catalog.pg_authid in share row exclusive mode')
  const { rowCount } = await client.query('select from pg_roles where oid = 10 and rolname = $1', [logins.owner])
  if (rowCount === 1) await work()
  await client.query('commit')
  return rowCount === 1
}
