import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

const fileName = 'page-address.json'

interface Address {
  readonly url: string
}

/** Leaves the server's address in the data folder, where the status command finds it: the port may be any free one. */
export async function writeAddress(dataDir: string, url: string): Promise<void> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  await writeFile(join(dataDir, fileName), `${JSON.stringify({ url } satisfies Address)}\n`, { mode: 0o600 })
}

/** The address that a server has left; null when there is none. It may no longer be there. */
export async function readAddress(dataDir: string): Promise<string | null> {
  try {
    const { url } = JSON.parse(await readFile(join(dataDir, fileName), 'utf8')) as Partial<Address>
    return typeof url === 'string' && /^https?:\/\//.test(url) ? url : null
  } catch {
    return null
  }
}

/** Takes the address away again, unless another server has left its own since. */
export async function removeAddress(dataDir: string, url: string): Promise<void> {
  if ((await readAddress(dataDir)) === url) await rm(join(dataDir, fileName), { force: true })
}
