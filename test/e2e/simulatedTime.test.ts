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

test('a world with faults is in order, and the same one the second time, event by event', async () => {
  const told = await worlds('--seed', '16', '--minutes', '0.5', '--twice')
  expect(told).toContain('seed 16: in order')
  expect(told).toContain('seed 16: the second time the same world')
})

test('a world with two recorders for one address and every other kind of fault is in order', async () => {
  const told = await worlds('--seed', '100', '--minutes', '0.5')
  expect(told).toContain('seed 100: in order')
})
