import { randomBytes } from 'node:crypto'
import { chmod, chown, link, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { isRunning } from '../../runtime/isRunning.js'
import { type Account, canEnter } from './embeddedAccount.js'
import type { Binaries } from './embeddedBinaries.js'
import { createCluster, embeddedPaths } from './embeddedProcess.js'
import { logins, type Passwords, setUpRoles } from './embeddedRoles.js'

const largestLogBytes = 10_000_000

/** For a small machine that does other things too. */
const tuning = {
  shared_buffers: '128MB',
  max_connections: '40',
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

/** Makes the data directory. Throws when it cannot be used. */
export async function prepareDirectory(dataDir: string, account: Account): Promise<void> {
  try {
    await mkdir(dataDir, { recursive: true, mode: 0o700 })
    const { uid } = await stat(dataDir)
    const own = process.getuid?.()
    if (own !== 0 && uid !== own) throw new Error('it belongs to another user')
    // On Linux the server gets its directory handed over open and needs no way to it.
    if (account !== undefined && process.platform !== 'linux') {
      await chmod(dataDir, 0o711)
      if (!(await canEnter(account, dataDir))) throw new Error('the user postgres cannot enter it')
    }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw new Error(`the data directory ${dataDir} cannot be used: ${why}; choose another one`, { cause })
  }
}

/** Made at the first start. Readable by nobody but us and the server. */
export async function rememberedPassword(file: string, account: Account): Promise<string> {
  const mine = `${file}.${process.pid}.${randomBytes(4).toString('hex')}`
  await writeFile(mine, `${randomBytes(24).toString('hex')}\n`, { mode: 0o600 })
  try {
    if (account !== undefined) await chown(mine, account.uid, account.gid)
    // Another process may be first: linking fails then, and its password counts.
    await link(mine, file).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== 'EEXIST') throw error
    })
    return (await readFile(file, 'utf8')).trim()
  } finally {
    await rm(mine, { force: true })
  }
}

/** Creates the cluster at the first start. Throws when there is one of another major version. */
export async function requireCluster(
  dataDir: string,
  account: Account,
  binaries: Binaries,
  { database, passwords }: { readonly database: string; readonly passwords: Passwords },
  logger?: { info(message: string): void },
): Promise<void> {
  const { cluster } = embeddedPaths(dataDir)
  const found = await clusterVersion(cluster)
  if (found === undefined) {
    logger?.info(`creating a database in ${dataDir}`)
    await removeUnfinished(dataDir)
    const directory = await mkdtemp(`${cluster}.new.${process.pid}.`)
    try {
      if (account !== undefined) await chown(directory, account.uid, account.gid)
      const user = logins.superuser
      await createCluster({ dataDir, account, program: binaries.initdb, directory, user, settings: tuning })
      await setUpRoles({ account, program: binaries.postgres, directory, database, passwords })
      // Complete or not there at all; if another process was faster, its cluster counts.
      await rename(directory, cluster).catch(async (error: unknown) => {
        if ((await clusterVersion(cluster)) === undefined) throw error
      })
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
    return
  }
  if (found !== binaries.major) {
    throw new Error(
      `${dataDir} holds a database of PostgreSQL ${found}, this market-recorder brings ${binaries.major}; ` +
        `move it with pg_dump to a server of yours, or choose another data directory`,
    )
  }
}

async function clusterVersion(cluster: string): Promise<string | undefined> {
  const text = await readFile(`${cluster}/PG_VERSION`, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw new Error(`the data directory ${dirname(cluster)} cannot be read: ${error.message}`, { cause: error })
  })
  return text.trim() === '' ? undefined : text.trim()
}

/** What processes that were killed while creating a cluster left behind. */
async function removeUnfinished(dataDir: string): Promise<void> {
  for (const name of await readdir(dataDir)) {
    const pid = Number(/^cluster\.new\.(\d+)\./.exec(name)?.[1] ?? Number.NaN)
    if (!Number.isNaN(pid) && !isRunning(pid)) await rm(`${dataDir}/${name}`, { recursive: true, force: true })
  }
}

/** Keeps the server's log from growing without end. */
export async function rotateLog(log: string): Promise<void> {
  const size = await stat(log).then(
    (found) => found.size,
    () => 0,
  )
  if (size > largestLogBytes) await rename(log, `${log}.1`)
}
