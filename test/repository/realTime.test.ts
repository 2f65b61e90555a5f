import { expect, test } from 'vitest'
import { repositoryFiles } from '../support/repositoryFiles.js'

/**
 * Where the machine's clock and chance may be read. Everything else takes time from a `Clock` and chance from
 * `runtime/randomness.ts`, so that a test can run it in a time of its own.
 */
const places: Readonly<Record<string, string>> = {
  'src/runtime/clock.ts': 'the clock of the machine',
  'src/runtime/randomness.ts': 'its chance',
  'src/cli/': 'commands, which run for a person at a machine',
  'src/cli/doctor.ts': 'compares the clock of this machine with that of the service',
  'src/serve/page/': 'runs in a browser',
  'src/serve/sampler.ts': 'measures how busy this process is',
  'src/server/embedded/': 'waits for another process, and makes passwords',
  'src/simulator/server.ts': 'the stand-in over real HTTP; what it serves takes its time from its caller',
  'src/simulator/control.ts': 'the same',
  'src/simulator/delivery.ts': 'the same',
  'src/simulator/faults.ts': 'measures how busy the process of the stand-in is',
}

/** A socket's own `setTimeout` is not meant: it ends what is silent, and decides nothing else. */
const readsMachine = new RegExp(
  [
    String.raw`\bDate\.now\b`,
    String.raw`\bnew Date\(\)`,
    String.raw`\bperformance\.(?:now|timeOrigin)\b`,
    String.raw`\bprocess\.(?:hrtime|uptime)\b`,
    String.raw`(?<!\.)\bset(?:Timeout|Interval)\b`,
    String.raw`\bAbortSignal\.timeout\b`,
    String.raw`['"](?:node:)?timers(?:/promises)?['"](?<!setImmediate.*)`,
    String.raw`\bMath\.random\b`,
    String.raw`\brandom(?:UUID|Bytes|Int)\b`,
    String.raw`\bgetRandomValues\b`,
    String.raw`\bcron\.schedule\b`,
  ].join('|'),
)

function linesThatRead(text: string): string[] {
  return text.split('\n').filter((line) => readsMachine.test(line) && !/^\s*(?:\*|\/\/|\/\*\*)/.test(line))
}

const isNamed = (path: string) => Object.keys(places).some((place) => path === place || path.startsWith(place))

test('the clock and the chance of the machine are read in a few named places alone', () => {
  const found = repositoryFiles(/^src\/.*\.tsx?$/)
    .filter(({ path }) => !isNamed(path))
    .flatMap(({ path, text }) => linesThatRead(text).map((line) => `${path}: ${line.trim()}`))
  expect(found).toEqual([])
})

test('no place is named in vain', () => {
  const files = repositoryFiles(/^src\/.*\.tsx?$/)
  const reads = (place: string) =>
    files.some(({ path, text }) => (path === place || path.startsWith(place)) && linesThatRead(text).length > 0)
  expect(Object.keys(places).filter((place) => !reads(place))).toEqual([])
})

test.each([
  'const timer = setTimeout(resolve, ms)',
  'const at = Date.now()',
  'now: Date.now,',
  "import { setTimeout as sleep } from 'node:timers/promises'",
  'const name = randomUUID()',
  'const startedAt = performance.now()',
])('it would find: %s', (line) => {
  expect(linesThatRead(line)).toEqual([line])
})

test.each(["import { setImmediate as nextTurn } from 'node:timers/promises'", '// setTimeout is late', 'clock.now()'])(
  'it lets pass: %s',
  (line) => {
    expect(linesThatRead(line)).toEqual([])
  },
)
