import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { repositoryRoot } from '../support/repositoryFiles.js'

test('the unit is understood by systemd', ({ skip }) => {
  skip(spawnSync('systemd-analyze', ['--version']).status !== 0, 'systemd is not installed on this machine')
  const folder = mkdtempSync(join(tmpdir(), 'market-recorder-unit-'))
  try {
    // An instance of the template, as one for an address is.
    const unit = join(folder, 'market-recorder@192.0.2.10.service')
    copyFileSync(join(repositoryRoot, 'config/systemd/market-recorder@.service'), unit)
    const { status, stderr } = spawnSync('systemd-analyze', ['verify', '--man=no', unit], { encoding: 'utf8' })
    expect(stderr.split('\n').filter((line) => line.includes('market-recorder'))).toEqual([])
    expect(status).toBe(0)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})
