import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { entryPoint, startProgram } from '../../support/program.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

test('a simulator says how to record it', async () => {
  const simulator = startProgram(['simulate', '--port', '0'])
  const [url = ''] = await simulator.printed(/http:\/\/\S+(?=\n)/)
  await simulator.printed(/^record it with: .*\n/m)
  simulator.process.kill('SIGTERM')
  const { stderr } = await simulator.finished
  expect(stderr).toBe(`record it with: EXCHANGE_BASE_URL=${url} npx market-recorder start\n`)
})

const note = (owner: string) => ({ 'page-address.json': { owner } })

test.each([
  ['at the usual port', {}, {}],
  ['at the usual port, with a database elsewhere', {}, { DATABASE_URL: 'postgres://x:y@127.0.0.1:1/z' }],
  ['at the address of one that was killed', note('999999999-unknown'), {}],
  ['at the address of one whose process number another has', note(`${process.pid}-00000000-1`), {}],
])('status of a folder without a recorder asks no other recorder %s', async (_, notes, env) => {
  const simulator = startProgram(['simulate', '--port', '0'])
  const [url = ''] = await simulator.printed(/http:\/\/\S+(?=\n)/)
  const folder = temporaryFolder('status')
  for (const [name, noted] of Object.entries(notes))
    await writeFile(join(folder, name), JSON.stringify({ url, ...noted }))
  const config = join(folder, 'recorder.json')
  await writeFile(config, JSON.stringify({ serve: { port: Number(new URL(url).port) } }))
  const { exitCode, stderr } = await startProgram(['status', '--config', config, '--data-dir', folder], env).finished
  simulator.process.kill('SIGTERM')
  await simulator.finished
  expect(stderr).toMatch(
    /^error: the recorder is not running here: the data folder holds no address of a recorder that runs;/,
  )
  expect(exitCode).toBe(1)
})

test('SIGUSR1 opens no inspector', async () => {
  const simulator = startProgram(['simulate', '--port', '0'])
  await simulator.printed(/http:\/\/\S+/)
  simulator.process.kill('SIGUSR1')
  simulator.process.kill('SIGTERM')
  const { exitCode, stderr } = await simulator.finished
  expect(exitCode).toBe(0)
  expect(stderr).not.toMatch(/debugger/i)
})

test.each([
  ['files that may be open', '-n 20', 'too many open files; raise the limit (ulimit -n 1024)'],
  ['memory', '-v 1500000', 'too little memory; raise the limit of virtual memory (ulimit -v unlimited)'],
])('too little is one line: %s', (_, limit, why) => {
  const { status, stderr } = spawnSync(
    'sh',
    ['-c', `ulimit ${limit}; exec "$0" "$1" start`, process.execPath, entryPoint],
    { encoding: 'utf8' },
  )
  expect(stderr).toBe(`error: the program cannot be loaded: ${why}\n`)
  expect(status).toBe(1)
})
