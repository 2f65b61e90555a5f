import { isMap, isScalar, LineCounter, type Node, parseDocument, stringify } from 'yaml'
import { ConfigError, problemsOf } from './configError.js'

/** The value that a configuration file holds, with the position of each part in its text. */
export interface ConfigSource {
  readonly value: unknown
  /** Returns `file:line` of the key or value at `path`, or of its nearest ancestor in the file. */
  place(path: readonly PropertyKey[]): string
}

/**
 * Parses YAML. Throws a `ConfigError` with the syntax errors, one line each. These name the parser's code alone: its
 * messages repeat parts of the text, which may be of a password.
 */
export function parseYaml(text: string, file: string): ConfigSource {
  const lineCounter = new LineCounter()
  const document = parseDocument(text, { lineCounter, prettyErrors: false, stringKeys: true, logLevel: 'error' })
  if (document.errors.length > 0) {
    throw new ConfigError(
      problemsOf(document.errors, ({ pos, code }) => {
        const { line, col } = lineCounter.linePos(pos[0])
        return `${file}:${line}:${col}: ${code.toLowerCase().replaceAll('_', ' ')}; correct the YAML, texts with special signs in quotes`
      }),
    )
  }
  return {
    value: toValue(() => document.toJS() as unknown, file) ?? {},
    place: (path) => {
      for (let length = path.length; length > 0; length--) {
        const start = offsetAt(document.contents, path.slice(0, length))
        if (start !== undefined) return `${file}:${lineCounter.linePos(start).line}`
      }
      return file
    },
  }
}

function toValue(convert: () => unknown, file: string): unknown {
  try {
    return convert()
  } catch {
    // The library also refuses a document whose aliases would expand without limit.
    throw new ConfigError([
      `${file}: an alias has no value; remove the aliases, and put texts that begin with * in quotes`,
    ])
  }
}

function offsetAt(root: unknown, path: readonly PropertyKey[]): number | undefined {
  let node = root
  let offset: number | undefined
  for (const key of path) {
    if (isMap(node)) {
      const pair = node.items.find((item) => isScalar(item.key) && String(item.key.value) === String(key))
      if (!pair) return undefined
      offset = (pair.key as Node).range?.[0]
      node = pair.value
    } else {
      const item: unknown = (node as { items?: unknown[] } | null)?.items?.[Number(key)]
      if (item === undefined) return undefined
      offset = (item as Node).range?.[0] ?? offset
      node = item
    }
  }
  return offset
}

/** Formats a configuration as YAML. It has no anchors, because people edit it. */
export function yamlText(value: object): string {
  return stringify(value, { aliasDuplicateObjects: false })
}
