import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, constants, openSync, readFileSync } from 'node:fs'
import { chmod, chown, link, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { basename, dirname } from 'node:path'
import { isUnneededFunction } from '../../../migrations/0009_roles.js'
import { isRunning, packageFile } from '../../runtime/process.js'
import { type Account, type Binaries, canEnter, findBinaries, serverAccount } from './binaries.js'
import { type Cluster, clusterPath, lastError, serverEnvironment, shortenLog } from './keeper.js'
import { databaseName, embeddedPaths, logins, type Passwords, readPasswords, scramVerifier } from './process.js'

/** Settings for a small machine that also runs other programs. */
const tuning = {
  shared_buffers: '128MB',
  // Readers may connect while fewer than 67 connections are open: more than recorder, page, commands and readers need.
  max_connections: '100',
  reserved_connections: '30',
  // All these readers find no end of the table of locks while none of them holds more than `bounds.locksOfSession`.
  max_locks_per_transaction: '256',
  // A connection without a password holds its place for so long, even a reserved one.
  authentication_timeout: '15s',
  // A query ends soon after its client.
  client_connection_check_interval: '5s',
  // For each process: sorts of readers would fill the disk. Only a superuser can raise it.
  temp_file_limit: '4GB',
  effective_cache_size: '512MB',
  maintenance_work_mem: '64MB',
  work_mem: '16MB',
  max_wal_size: '1GB',
  checkpoint_timeout: '15min',
  wal_compression: 'on',
  random_page_cost: '1.1',
  io_method: 'sync',
  jit: 'off',
  log_checkpoints: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
}

/** Creates a password, unless there is one. Only this user and the server's account can read its file. */
async function rememberPassword(file: string, account: Account): Promise<void> {
  const mine = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  await writeFile(mine, `${randomBytes(24).toString('hex')}\n`, { mode: 0o600 })
  try {
    if (account !== undefined) await chown(mine, account.uid, account.gid)
    // Another process may be faster. Linking then fails, and the password of that process counts.
    await link(mine, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
  } finally {
    await rm(mine, { force: true })
  }
}

/**
 * Creates the cluster, its logins and its database at the first start. Throws if the directory cannot be used, or if
 * its cluster has another major version.
 */
export async function requireCluster(dataDir: string, logger?: { info(message: string): void }): Promise<Cluster> {
  const account = await serverAccount()
  await requireOwnDirectory(dataDir, account)
  const binaries = await findBinaries(account)
  const { cluster, log } = embeddedPaths(dataDir)
  const found = await clusterVersion(cluster)
  if (found === undefined) {
    logger?.info(`creating a database in ${dataDir}`)
    await createCluster(dataDir, account, binaries)
  } else if (found !== binaries.major) {
    throw new Error(
      `${dataDir} holds a database of PostgreSQL ${found}, this market-recorder brings ${binaries.major}; ` +
        `move it with pg_dump to a server of yours, or choose another data directory`,
    )
  }
  await shortenLog(log)
  return { account, program: binaries.postgres }
}

async function createCluster(dataDir: string, account: Account, { initdb, postgres }: Binaries): Promise<void> {
  const paths = embeddedPaths(dataDir)
  for (const file of Object.values(paths.passwords)) await rememberPassword(file, account)
  await removeUnfinished(dataDir)
  const directory = await mkdtemp(`${paths.cluster}.new.${process.pid}.`)
  const password = openSync(paths.passwords.owner, constants.O_RDONLY)
  try {
    if (account !== undefined) await chown(directory, account.uid, account.gid)
    const pgdata = clusterPath(directory, account)
    await runProgram(initdb, initdbOptions(pgdata), { account, directory, password })
    const single = ['--single', '-j', '-c', 'exit_on_error=on', '-D', pgdata, 'template1']
    // In single-user mode, a semicolon and an empty line end a statement. This mode needs no login.
    const input = roleStatements(await readPasswords(dataDir)).map((statement) => `${statement};\n\n`)
    await runProgram(postgres, single, { account, directory, input: input.join('') })
    // Renames the finished cluster, so that it is never incomplete. If another process was faster, its cluster counts.
    await rename(directory, paths.cluster).catch(async (error: unknown) => {
      if ((await clusterVersion(paths.cluster)) === undefined) throw error
    })
  } finally {
    closeSync(password)
    await rm(directory, { recursive: true, force: true })
  }
}

/** Options for a new cluster, with a superuser whose password is read from descriptor 3. */
function initdbOptions(pgdata: string): string[] {
  const options = {
    pgdata,
    username: logins.superuser,
    pwfile: '/dev/fd/3',
    auth: 'scram-sha-256',
    encoding: 'UTF8',
    // The server's built-in locale makes the order of texts the same on every machine.
    'locale-provider': 'builtin',
    'builtin-locale': 'C.UTF-8',
    locale: 'C',
  }
  return [
    ...Object.entries(options).map(([name, value]) => `--${name}=${value}`),
    ...Object.entries(tuning).map(([name, value]) => `--set=${name}=${value}`),
    '--no-instructions',
  ]
}

interface ProgramOptions {
  readonly account: Account
  /** Data directory of the cluster. No server uses the directory yet. */
  readonly directory: string
  /** Descriptor of the file with the superuser's password. */
  readonly password?: number
  readonly input?: string
}

/** Runs a program of the server on a new cluster. Throws if it fails. */
async function runProgram(program: string, options: readonly string[], run: ProgramOptions): Promise<void> {
  const { account, directory, password = 'ignore', input = '' } = run
  const cluster = openSync(directory, constants.O_RDONLY)
  let child: ChildProcess
  try {
    child = spawn(program, options, {
      cwd: '/',
      stdio: ['pipe', 'ignore', 'pipe', password, cluster],
      env: serverEnvironment(),
      ...account,
    })
  } finally {
    closeSync(cluster)
  }
  let output = ''
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (output += text))
  child.stdin?.on('error', () => undefined)
  child.stdin?.end(input)
  const code = await new Promise<number | null>((resolve, reject) => child.once('error', reject).once('close', resolve))
  const problem = lastError(output)
  if (code === 0 && problem === undefined) return
  throw new Error(`creating the embedded database failed: ${problem ?? `${basename(program)} ended with ${code}`}`)
}

async function requireOwnDirectory(dataDir: string, account: Account): Promise<void> {
  try {
    const { uid } = await stat(dataDir)
    const own = process.getuid?.()
    if (own !== 0 && uid !== own) throw new Error('it belongs to another user')
    // On Linux the server gets an open descriptor of its directory, so it needs no access to the parents.
    if (account !== undefined && process.platform !== 'linux') {
      await chmod(dataDir, 0o711)
      if (!(await canEnter(account, dataDir))) throw new Error('the user postgres cannot enter it')
    }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`the data directory ${dataDir} cannot be used: ${why}; choose another one`, { cause })
  }
}

async function clusterVersion(cluster: string): Promise<string | undefined> {
  const text = await readFile(`${cluster}/PG_VERSION`, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw new Error(`the data directory ${dirname(cluster)} cannot be read: ${error.message}`, { cause: error })
  })
  return text.trim() === '' ? undefined : text.trim()
}

/** Removes unfinished clusters, left behind by processes that were killed while creating one. */
async function removeUnfinished(dataDir: string): Promise<void> {
  for (const name of await readdir(dataDir)) {
    const pid = Number(/^cluster\.new\.(\d+)\./.exec(name)?.[1] ?? Number.NaN)
    if (!Number.isNaN(pid) && !isRunning(pid)) await rm(`${dataDir}/${name}`, { recursive: true, force: true })
  }
}

/** Connection limit of the analysts' login. More would take connections from the recording. */
const maxReaders = 12
/** Above the page's pool, so that a restarted recorder need not wait for the previous one's connections to end. */
const maxPageConnections = 8

/**
 * Takes rights from public that readers do not need, and that only a superuser can take. The rights on functions also
 * hold for databases created later.
 */
const closeToPublic = `
  do $$
  declare
    name text;
  begin
    for name in select datname from pg_database where datname <> 'template0' loop
      execute format('revoke temporary on database %I from public', name);
    end loop;
    for name in select oid::regprocedure::text from pg_proc where ${isUnneededFunction} loop
      execute format('revoke execute on function %s from public', name);
    end loop;
  end
  $$`

/** Returns the statements that set up roles and the database. The superuser runs them. */
function roleStatements(passwords: Passwords): string[] {
  const { owner } = logins
  return [
    `alter role ${logins.superuser} password null`,
    `do $$
    begin
      if to_regrole('${owner}') is null then create role ${owner}; end if;
      if to_regrole('market_reader') is null then create role market_reader; end if;
      if to_regrole('recorder_writer') is null then create role recorder_writer; end if;
      if to_regrole('${logins.page}') is null then create role ${logins.page} in role market_reader; end if;
      if to_regrole('${logins.reader}') is null then create role ${logins.reader} in role market_reader; end if;
    end
    $$`,
    `alter role ${owner} login createdb createrole password '${scramVerifier(passwords.owner)}'`,
    `alter role ${logins.page} login connection limit ${maxPageConnections} password '${scramVerifier(passwords.page)}'`,
    `alter role ${logins.reader} login connection limit ${maxReaders} password '${scramVerifier(passwords.reader)}'`,
    `alter role ${owner} set temp_file_limit = -1`,
    // What they ask, and what fails of it, would fill the disk with the server's log.
    ...[logins.page, logins.reader].flatMap((login) => [
      `alter role ${login} set log_min_messages = fatal`,
      `alter role ${login} set log_min_error_statement = panic`,
    ]),
    // The owner can then grant the roles, and end the session of a member whose query blocks it.
    `grant market_reader, recorder_writer, ${logins.reader} to ${owner} with admin option`,
    // Reserved connections remain for the recorder and its page, even if many others log in.
    `grant pg_use_reserved_connections to ${owner}, ${logins.page}`,
    // It did not get the roles that it creates for analysts, and ends their sessions, too.
    `grant pg_signal_backend to ${owner}`,
    'revoke connect on database postgres, template1 from public',
    `grant connect on database postgres, template1 to ${owner}`,
    closeToPublic,
    // Databases that are created from this one have it, too.
    readFileSync(packageFile('config/compose/refuse_queuing.sql'), 'utf8'),
    `create database ${databaseName} owner ${owner}`,
    `revoke temporary on database ${databaseName} from public`,
  ]
}
