import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'

const run = promisify(execFile)
const program = fileURLToPath(new URL('../../dist/test/simulation/main.js', import.meta.url))

/** In a process of its own, whose clock and chance it replaces. `npm run worlds` runs other seeds, and longer. */
async function worlds(...args: readonly string[]): Promise<string> {
  return run(process.execPath, [program, ...args]).then(
    ({ stdout }) => stdout,
    (error: { readonly stdout: string; readonly stderr: string }) => `${error.stdout}\n${error.stderr}`,
  )
}

test('two worlds of many kinds of faults are in order, and the same ones the second time, event by event', async () => {
  // The first has two recorders for one address.
  const told = await worlds('--seed', '45', '--seeds', '2', '--minutes', '1', '--twice')
  for (const seed of [45, 46]) {
    expect(told).toContain(`seed ${seed}: in order`)
    expect(told).toContain(`seed ${seed}: the second time the same world`)
  }
  expect(told).toMatch(/^2 seeds, 0 with violations; /m)
}, 1_800_000)

test('a configuration that is refused is told in one line', async () => {
  const { code, stderr } = await ended('--instruments', '3', '--books', '999999999')
  expect(stderr).toMatch(/^error: simulation: streams\.orderBooks\.everySeconds [^\n]*\n$/)
  expect(code).toBe(1)
})

test('help is printed, and a wrong option is told in one line', async () => {
  const [help, wrong] = await Promise.all([ended('--help'), ended('--minutes', 'x')])
  expect(help).toMatchObject({ code: 0, stderr: '' })
  expect(help.stdout).toContain('--minimise <attempts>')
  expect(wrong.code).toBe(2)
  expect(wrong.stderr).toMatch(/^error: option '--minutes <count>' argument 'x' is invalid[^\n]*\n$/)
})

function ended(...args: readonly string[]) {
  return run(process.execPath, [program, ...args]).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    (error: { readonly code: number; readonly stdout: string; readonly stderr: string }) => error,
  )
}
