import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs, promisify } from 'node:util'
import { transformWithOxc } from 'vite'
import { packageFile } from '../../src/runtime/process.js'
import { type Mutation, mutations } from './mutations.js'

/**
 * `npm run mutations`: makes each known mistake in a copy of the sources, and says after how many seeds simulated time, or
 * sequences of the rule or an archive, find it. One that is not found is a promise of the recorder that nothing watches.
 */
const { values } = parseArgs({
  options: {
    /** At most so many seeds for each. */
    seeds: { type: 'string', default: '200' },
    sequences: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    minutes: { type: 'string', default: '10' },
    /** Makes only mistakes whose name contains this. */
    only: { type: 'string', default: '' },
    /** Makes only mistakes that this finds: `worlds`, `rule` or `archive`. */
    by: { type: 'string', default: '' },
  },
})
/** Options of the command that finds mistakes otherwise than in simulated time. */
const comparisons = { rule: ['rule'], archive: ['archive', '--only', 'sequences'] } as const
const run = promisify(execFile)
const copied = ['dist', 'package.json', 'config', 'migrations/functions']
const folder = await mkdtemp(join(tmpdir(), 'market-recorder-mutations-'))
let found = 0
let tried = 0
try {
  for (const name of copied) await cp(packageFile(name), join(folder, name), { recursive: true })
  await symlink(packageFile('node_modules'), join(folder, 'node_modules'))
  for (const mutation of mutations.filter(isAskedFor)) {
    tried++
    const outcome = await tryMutation(mutation)
    if (outcome.isFound) found++
    process.stdout.write(`${outcome.isFound ? 'found    ' : 'NOT FOUND'} ${mutation.name}: ${outcome.how}\n`)
  }
} finally {
  await rm(folder, { recursive: true, force: true })
}
process.stdout.write(`${found} of ${tried} found\n`)
process.exitCode = found === tried ? 0 : 1

function isAskedFor({ name, foundBy }: Mutation): boolean {
  return name.includes(values.only) && (values.by === '' || values.by === (foundBy ?? 'worlds'))
}

async function tryMutation({ file, find, replace, foundBy }: Mutation): Promise<{ isFound: boolean; how: string }> {
  const text = await readFile(packageFile(file), 'utf8')
  if (text.split(find).length !== 2) throw new Error(`${file} does not hold this once: ${find}`)
  const path = join(folder, file.endsWith('.sql') ? file : `dist/${file.replace(/\.ts$/, '.js')}`)
  const compiled = await readFile(path, 'utf8')
  const mutated = text.replace(find, () => replace)
  // A mistake need not fit the types.
  await writeFile(path, file.endsWith('.sql') ? mutated : (await transformWithOxc(mutated, file)).code)
  try {
    const from = ['--seed', values.seed, '--stop-at-first']
    const args =
      foundBy === undefined
        ? ['dist/test/simulation/main.js', ...from, '--seeds', values.seeds, '--minutes', values.minutes]
        : ['dist/bench/main.js', ...comparisons[foundBy], ...from, '--sequences', values.sequences]
    const output = await run('node', args, { cwd: folder }).then(
      ({ stdout }) => stdout,
      (error: { readonly stdout: string; readonly stderr: string }) => `${error.stdout}\n${error.stderr}`,
    )
    const wrong = /^seed (\d+): (.*)$/m.exec(output)
    if (foundBy !== undefined) {
      if (wrong === null) return { isFound: false, how: output.includes('go on with') ? 'in all sequences' : output }
      return { isFound: true, how: `after ${Number(wrong[1]) - Number(values.seed) + 1} sequence(s): ${wrong[2]}` }
    }
    const violation = /^ {2}VIOLATION (.*)$/m.exec(output)?.[1]
    const seeds = output.match(/^seed \d+:/gm)?.length ?? 0
    if (violation !== undefined) return { isFound: true, how: `after ${seeds} seed(s): ${violation.slice(0, 150)}` }
    if (!/^\d+ seeds, 0 with violations/m.test(output))
      return { isFound: true, how: `it ended: ${output.slice(0, 400)}` }
    return { isFound: false, how: `in ${seeds} seeds` }
  } finally {
    await writeFile(path, compiled)
  }
}
