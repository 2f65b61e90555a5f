import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'

let root: string | undefined

/** The path of a file of this package, for example `config/demo.yaml`; it need not exist. */
export function packageFile(path: string): string {
  root ??= packageRoot()
  return join(root, path)
}

/** The folder of our package.json: how far above this file it lies differs between the sources and the bundled program. */
function packageRoot(): string {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const file = join(folder, 'package.json')
    if (existsSync(file) && readPackage(file).name === 'market-recorder') return folder
    if (folder === dirname(folder)) throw new Error(`no package.json of market-recorder above ${import.meta.dirname}`)
  }
}

function readPackage(file: string): { readonly name: string; readonly version: string } {
  return JSON.parse(readFileSync(file, 'utf8')) as { readonly name: string; readonly version: string }
}

/** The version in package.json. */
export function packageVersion(): string {
  return readPackage(packageFile('package.json')).version
}
