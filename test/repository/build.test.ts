import { spawnSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { repositoryRoot } from '../support/repositoryFiles.js'

/** Takes the place of the compiler and the bundler: says what it finds in dist at that time, and copies the source. */
const tool = `#!/bin/sh
name=$(basename "$0")
echo "$name $(cat dist/program/main.js 2>/dev/null)" >> built.log
[ "$name" = tsc ] && exit 0
[ -e src/broken.ts ] && exit 3
while [ "$1" != --outDir ]; do shift; done
mkdir -p "$2"
cat src/main.ts > "$2/main.js"
cat src/main.ts > "$2/index.html"
`

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'market-recorder-build-'))
  await mkdir(join(folder, 'src'))
  await mkdir(join(folder, 'node_modules/.bin'), { recursive: true })
  for (const name of ['tsc', 'vite']) {
    await writeFile(join(folder, 'node_modules/.bin', name), tool)
    await chmod(join(folder, 'node_modules/.bin', name), 0o755)
  }
  await writeFile(join(folder, 'src/main.ts'), 'first')
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** Runs the build of this repository on the folder; resolves to what the tools saw. */
async function build(...args: string[]): Promise<{ readonly status: number | null; readonly tools: string[] }> {
  const log = join(folder, 'built.log')
  await rm(log, { force: true })
  const { status } = spawnSync(process.execPath, [join(repositoryRoot, 'scripts/build.mjs'), ...args], { cwd: folder })
  const text = existsSync(log) ? await readFile(log, 'utf8') : ''
  return { status, tools: text.split('\n').filter((line) => line !== '') }
}

const program = () => readFile(join(folder, 'dist/program/main.js'), 'utf8')

test('the program can be run, also after another build', async () => {
  for (const source of ['first', 'second']) {
    await writeFile(join(folder, 'src/main.ts'), source)
    await build()
    expect((await stat(join(folder, 'dist/program/main.js'))).mode & 0o111).toBe(0o111)
  }
})

test('builds what is not built, and after that only what has changed, unless it is told to', async () => {
  expect((await build('--if-changed')).tools).toHaveLength(3)
  expect(await program()).toBe('first')
  expect(await build('--if-changed')).toEqual({ status: 0, tools: [] })
  expect((await build()).tools).toHaveLength(3)

  await writeFile(join(folder, 'src/main.ts'), 'second')
  expect((await build('--if-changed')).tools).toHaveLength(3)
  expect(await program()).toBe('second')
  await writeFile(join(folder, 'src/other.ts'), '')
  expect((await build('--if-changed')).tools).toHaveLength(3)
  await rm(join(folder, 'src/other.ts'))
  expect((await build('--if-changed')).tools).toHaveLength(3)

  await rm(join(folder, 'dist/page'), { recursive: true })
  expect((await build('--if-changed')).tools).toHaveLength(3)
  expect(existsSync(join(folder, 'dist/page/index.html'))).toBe(true)
})

test('leaves what was built in place until all of the new is there', async () => {
  await build()
  await writeFile(join(folder, 'src/main.ts'), 'second')
  expect((await build()).tools).toEqual(['tsc first', 'vite first', 'vite first'])

  await writeFile(join(folder, 'src/broken.ts'), '')
  expect((await build()).status).toBe(3)
  expect(await program()).toBe('second')
  // What failed is tried again, although nothing has changed since.
  expect((await build('--if-changed')).status).toBe(3)
})
