import { existsSync } from 'node:fs'
import { packageFile } from '../runtime/packageFile.js'

/** Where the built page is; null when it has not been built. */
export function pageFolder(): string | null {
  const folder = packageFile('dist/page/')
  return existsSync(`${folder}assets`) ? folder : null
}
