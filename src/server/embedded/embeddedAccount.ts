import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The operating-system user that the server runs as; undefined is the user that we are. */
export type Account = { readonly uid: number; readonly gid: number } | undefined

const accountName = 'postgres'

/**
 * PostgreSQL refuses to run as root, so for root this is an unprivileged user, created if it is missing. Throws when it can
 * not be created.
 */
export async function serverAccount(): Promise<Account> {
  if (process.getuid?.() !== 0) return undefined
  const known = await lookUp()
  if (known !== undefined) return known
  try {
    await run('useradd', ['--system', '--user-group', '--no-create-home', '--shell', '/bin/false', accountName])
  } catch {
    // Where there is no useradd, as on Alpine.
    await run('adduser', ['-S', '-D', '-H', accountName]).catch(() => undefined)
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

/** Whether the account can enter a directory: those above it count too. */
export async function canEnter(account: Account, directory: string): Promise<boolean> {
  try {
    await run('/bin/sh', ['-c', 'cd -- "$1"', 'sh', directory], { cwd: '/', ...account })
    return true
  } catch {
    return false
  }
}
