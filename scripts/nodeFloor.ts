// Warns of known vulnerabilities whose fix needs a newer Node.js than the oldest that package.json supports. It asks npm's
// registry, and never fails: people decide what to do. Run it in the checkout: node dist/scripts/nodeFloor.js
import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

/** The part of `npm audit --json` that is read here. */
interface Audit {
  readonly vulnerabilities?: Readonly<Record<string, Vulnerability>>
}
interface Vulnerability {
  readonly name: string
  readonly severity: string
  readonly fixAvailable: boolean | { readonly name: string; readonly version: string }
}

type EnginesOf = (name: string, version: string) => string | undefined

/** Advisories whose fix is a version that does not run on Node.js `floor`, one line each. */
export function blockedFixes({ vulnerabilities = {} }: Audit, floor: string, enginesOf: EnginesOf): string[] {
  return Object.values(vulnerabilities).flatMap(({ name, severity, fixAvailable: fix }) => {
    if (typeof fix === 'boolean') return []
    const engines = enginesOf(fix.name, fix.version)
    if (engines === undefined || admits(engines, floor)) return []
    return [`${name} (${severity}): fixed by ${fix.name} ${fix.version}, which needs Node.js ${engines}`]
  })
}

/** Returns true if the engines of a package, such as `^18 || >=20.1`, admit a version of Node.js. */
export function admits(engines: string, version: string): boolean {
  return engines.split('||').some((alternative) => {
    const bounds = [...alternative.matchAll(/(>=|>|<=|<|\^|~)?\s*(\d+)(?:\.(\d+|[x*]))?(?:\.(\d+|[x*]))?/g)]
    return bounds.every(([, operator = '', ...parts]) => isWithin(operator, parts, version))
  })
}

function isWithin(operator: string, parts: readonly (string | undefined)[], version: string): boolean {
  const bound = parts.map((part) => (part === undefined || /\D/.test(part) ? 0 : Number(part)))
  const difference = compare(version.split('.').map(Number), bound)
  if (operator === '>') return difference > 0
  if (operator === '<') return difference < 0
  if (operator === '<=') return difference <= 0
  if (operator === '>=') return difference >= 0
  return difference >= 0 && Number(version.split('.')[0]) === bound[0]
}

function compare(left: readonly number[], right: readonly number[]): number {
  const differences = [0, 1, 2].map((index) => (left[index] ?? 0) - (right[index] ?? 0))
  return differences.find((difference) => difference !== 0) ?? 0
}

function npm(...args: readonly string[]): unknown {
  const { stdout } = spawnSync('npm', [...args, '--json'], { encoding: 'utf8' })
  try {
    return JSON.parse(stdout)
  } catch {
    return undefined
  }
}

function warn(): void {
  const { engines } = JSON.parse(readFileSync('package.json', 'utf8')) as { engines: { node: string } }
  const floor = engines.node.replace('>=', '')
  const audit = npm('audit', '--omit=dev') as Audit | undefined
  if (audit?.vulnerabilities === undefined) {
    console.log('floor: the registry serves no advisories, so none was looked at')
    return
  }
  const blocked = blockedFixes(
    audit,
    floor,
    (name, version) => npm('view', `${name}@${version}`, 'engines.node') as string,
  )
  for (const line of blocked) console.log(`floor: WARNING: ${line}`)
  if (blocked.length === 0) console.log(`floor: no fix needs a newer Node.js than ${floor}`)
}

if (process.argv[1] === fileURLToPath(import.meta.url)) warn()
