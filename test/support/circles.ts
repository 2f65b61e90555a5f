import { posix } from 'node:path'
import { importsOf } from './importRules.js'
import type { RepositoryFile } from './repositoryFiles.js'

/** Which file imports which, types and dynamic imports too; only files that are among the given ones. */
export function importsBetween(files: readonly RepositoryFile[]): Map<string, Set<string>> {
  const paths = new Set(files.map(({ path }) => path))
  return new Map(
    files.map(({ path, text }) => {
      const targets = importsOf(text).flatMap(({ specifier }) => {
        if (!specifier.startsWith('.')) return []
        const target = posix.join(posix.dirname(path), specifier).replace(/\.js$/, '')
        return [`${target}.ts`, `${target}.tsx`].filter((name) => paths.has(name) && name !== path)
      })
      return [path, new Set(targets)]
    }),
  )
}

/**
 * The circles among files, and among what stands in each folder, a folder counting as one with all that is in it. Each
 * is given as its members, in order of the alphabet. Without a circle everything has a floor above all that it imports.
 */
export function circles(imports: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const folders = new Set([...imports.keys()].flatMap(foldersOf))
  const withinFolders = [...folders].flatMap((folder) => {
    const child = (path: string) =>
      path.startsWith(`${folder}/`) ? `${folder}/${path.slice(folder.length + 1).split('/')[0]}` : null
    const between = new Map<string, Set<string>>()
    for (const [path, targets] of imports) {
      const from = child(path)
      if (from === null) continue
      const known = between.get(from) ?? new Set()
      for (const target of targets) {
        const to = child(target)
        if (to !== null && to !== from) known.add(to)
      }
      between.set(from, known)
    }
    return strongComponents(between)
  })
  return [...new Set([...strongComponents(imports), ...withinFolders])].sort()
}

function foldersOf(path: string): string[] {
  const parts = path.split('/').slice(0, -1)
  return parts.map((_, index) => parts.slice(0, index + 1).join('/'))
}

/** Members of each circle, by Tarjan's algorithm; what is in none is left out. */
function strongComponents(graph: ReadonlyMap<string, ReadonlySet<string>>): string[] {
  const found: string[] = []
  const index = new Map<string, number>()
  const stack: string[] = []
  const visit = (node: string): number => {
    index.set(node, index.size)
    let lowest = index.get(node) ?? 0
    stack.push(node)
    for (const next of graph.get(node) ?? []) {
      if (!index.has(next)) lowest = Math.min(lowest, visit(next))
      else if (stack.includes(next)) lowest = Math.min(lowest, index.get(next) ?? 0)
    }
    if (lowest === index.get(node)) {
      const members = stack.splice(stack.indexOf(node))
      if (members.length > 1) found.push(members.sort().join(', '))
    }
    return lowest
  }
  for (const node of graph.keys()) if (!index.has(node)) visit(node)
  return found
}
