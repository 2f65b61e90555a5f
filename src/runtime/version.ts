import { packageFile, readPackage } from './packageFile.js'

/** The version in package.json. */
export function packageVersion(): string {
  return readPackage(packageFile('package.json')).version
}
