import { spawnSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { entryPoint, startProgram } from '../../support/program.js'

test('SIGUSR1 opens no inspector', async () => {
  const simulator = startProgram(['simulate', '--port', '0'])
  await simulator.printed(/http:\/\/\S+/)
  simulator.process.kill('SIGUSR1')
  simulator.process.kill('SIGTERM')
  const { exitCode, stderr } = await simulator.finished
  expect(exitCode).toBe(0)
  expect(stderr).not.toMatch(/debugger/i)
})

test('too few files that may be open are one line', () => {
  const { status, stderr } = spawnSync(
    'sh',
    ['-c', 'ulimit -n 20; exec "$0" "$1" start', process.execPath, entryPoint],
    { encoding: 'utf8' },
  )
  expect(stderr).toBe('error: the program cannot be loaded: too many open files; raise the limit (ulimit -n 1024)\n')
  expect(status).toBe(1)
})
