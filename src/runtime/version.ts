import { readFileSync } from 'node:fs'

/** The version in package.json, or `unknown` where that file is not at hand. */
export function packageVersion(): string {
  // The compiled program lies one folder deeper than its source.
  for (const path of ['../../../package.json', '../../package.json']) {
    try {
      const { name, version } = JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8')) as Package
      if (name === 'market-recorder') return version
    } catch {
      // Not there: look in the other place.
    }
  }
  return 'unknown'
}

interface Package {
  readonly name: string
  readonly version: string
}
