// Builds dist. Plain JavaScript: it runs before anything is built.
//
// With --if-changed only when a source differs from what was built: npx links a checkout and runs `prepare`, perhaps beside a
// recorder that serves its page from dist. What is built is put in place at once, never file by file.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'

/** All that the build reads, the locked versions of packages included. */
const inputs = [
  'src',
  'migrations',
  'bench',
  'scripts',
  'test/model',
  'test/simulation',
  'test/support',
  'package.json',
  'package-lock.json',
  'tsconfig.json',
  'tsconfig.build.json',
  'plainTimes.d.ts',
  'vite.config.ts',
  'vite.program.config.ts',
]
const note = 'dist/built.sha256'

/** Folders of dist that the compiler fills. */
const compiled = ['src', 'migrations', 'bench', 'scripts', 'test']

/** Bundles, each with what starts it. */
const bundles = [
  { folder: 'dist/page', entry: 'index.html', config: 'vite.config.ts' },
  { folder: 'dist/program', entry: 'main.js', config: 'vite.program.config.ts' },
]

/**
 * @param {string} path
 * @returns {string[]}
 */
function filesOf(path) {
  if (!existsSync(path)) return []
  if (!statSync(path).isDirectory()) return [path]
  return readdirSync(path)
    .toSorted()
    .flatMap((name) => filesOf(`${path}/${name}`))
}

function digestOfInputs() {
  const hash = createHash('sha256')
  for (const file of inputs.flatMap(filesOf)) hash.update(`${file}\0`).update(readFileSync(file)).update('\0')
  return hash.digest('hex')
}

/** @param {string} digest */
function isBuilt(digest) {
  const isThere = bundles.every(({ folder, entry }) => existsSync(join(folder, entry)))
  return isThere && existsSync(note) && readFileSync(note, 'utf8').trim() === digest
}

/**
 * @param {string} tool
 * @param {string[]} args
 */
function run(tool, ...args) {
  const { status, error } = spawnSync(join('node_modules', '.bin', tool), args, { stdio: 'inherit' })
  if (error) process.stderr.write(`error: ${tool} did not run: ${error.message}; run npm ci first\n`)
  if (status !== 0) process.exit(status ?? 1)
}

/** Waits while another process builds here, ten minutes at most. The lock of one that has died does not count. */
function waitForTurn() {
  const lock = 'dist/building.pid'
  const giveUpAt = Date.now() + 600_000
  for (;;) {
    try {
      writeFileSync(lock, `${process.pid}`, { flag: 'wx' })
      process.on('exit', () => rmSync(lock, { force: true }))
      return
    } catch (error) {
      if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST') || Date.now() > giveUpAt) throw error
      if (!isAlive(holderOf(lock))) rmSync(lock, { force: true })
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 200)
    }
  }
}

/**
 * @param {string} lock
 * @returns {number} 0 where it has just been given back
 */
function holderOf(lock) {
  try {
    return Number(readFileSync(lock, 'utf8'))
  } catch {
    return 0
  }
}

/** @param {number} pid */
function isAlive(pid) {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

const digest = digestOfInputs()
const isAsked = () => !process.argv.includes('--if-changed') || !isBuilt(digest)
if (isAsked()) {
  mkdirSync('dist', { recursive: true })
  waitForTurn()
}
if (isAsked()) {
  rmSync(note, { force: true })
  // The compiler would leave the output of sources that are gone.
  for (const folder of compiled) rmSync(`dist/${folder}`, { recursive: true, force: true })
  run('tsc', '-p', 'tsconfig.build.json')
  for (const { folder, config } of bundles) {
    run('vite', 'build', '--config', config, '--outDir', resolve(`${folder}.next`), '--emptyOutDir')
  }
  // npx makes the program executable when it first links a checkout, and not again after another build.
  chmodSync('dist/program.next/main.js', 0o755)
  for (const { folder } of bundles) {
    rmSync(`${folder}.old`, { recursive: true, force: true })
    if (existsSync(folder)) renameSync(folder, `${folder}.old`)
    renameSync(`${folder}.next`, folder)
    rmSync(`${folder}.old`, { recursive: true, force: true })
  }
  writeFileSync(note, `${digest}\n`)
}
