import { readFileSync } from 'node:fs'
import { ConfigError } from './configError.js'

/** The text of a file that the configuration names. Throws a `ConfigError` with what to do. */
export function readText(file: string, advice: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    const why =
      code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'no permission to read it' : String(code)
    throw new ConfigError([`${file}: ${why}; ${advice}`], { cause: error })
  }
}
