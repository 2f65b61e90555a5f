import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startCommand } from '../../src/cli/start.js'
import { readRepositoryFile, repositoryRoot } from '../support/repositoryFiles.js'

const units = ['market-recorder.service', 'market-recorder@.service'].map((name) => ({
  name,
  text: readRepositoryFile(`config/systemd/${name}`),
}))
const guide = readRepositoryFile('docs/scale.md')

/** Options that say how it is contained. */
function hardening(text: string): string[] {
  const names = /^(DynamicUser|NoNew|Protect|Private|Capability|Restrict|UMask|MemoryMax|OOM|TimeoutStop|Restart)/
  return text.split('\n').filter((line) => names.test(line))
}

test.for(units)('$name is understood by systemd', ({ name }, { skip }) => {
  skip(spawnSync('systemd-analyze', ['--version']).status !== 0, 'systemd is not installed on this machine')
  const folder = mkdtempSync(join(tmpdir(), 'market-recorder-unit-'))
  try {
    // Of the template an instance, as one for an address is.
    const unit = join(folder, name.replace('@', '@192.0.2.10'))
    copyFileSync(join(repositoryRoot, 'config/systemd', name), unit)
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' })
    expect(stderr.split('\n').filter((line) => line.includes('market-recorder'))).toEqual([])
    expect(status).toBe(0)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test.each(units)(
  '$name starts the recorder with options that there are, and does not give up on what is not there',
  ({ text }) => {
    const [, args = ''] = /^ExecStart=\/usr\/bin\/env market-recorder start (.*)$/m.exec(text) ?? []
    const given = args.split(' ').filter((word) => word.startsWith('--'))
    expect(given).toContain('--wait')
    const known = startCommand().options.map(({ long }) => long)
    expect(given.filter((option) => !known.includes(option))).toEqual([])
  },
)

test('both units are contained alike', () => {
  const [one = [], several] = units.map(({ text }) => hardening(text))
  expect(one.length).toBeGreaterThan(8)
  expect(several).toEqual(one)
})

test.each(units)('the guide makes every file that $name reads', ({ name, text }) => {
  expect(guide).toContain(`sudo cp config/systemd/${name} /etc/systemd/system/`)
  const files = [...text.matchAll(/^(?:EnvironmentFile=|ExecStart=.*--config )(\S+)/gm)].map(([, file = '']) => file)
  expect(files.length).toBeGreaterThan(1)
  for (const file of files) expect(guide).toContain(file.replace('%i', '192.0.2.10'))
})
