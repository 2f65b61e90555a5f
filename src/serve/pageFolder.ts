import { existsSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** Where the built page is; null when it has not been built. It lies beside the compiled program, also for those who run the sources. */
export function pageFolder(): string | null {
  for (const path of ['./page/', '../../dist/src/serve/page/']) {
    const folder = fileURLToPath(new URL(path, import.meta.url))
    if (existsSync(`${folder}assets`)) return folder
  }
  return null
}
