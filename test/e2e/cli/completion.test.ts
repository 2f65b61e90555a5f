import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { commands } from '../../../src/cli/program.js'
import { runProgram } from '../../support/program.js'
import { temporaryFolder } from '../../support/temporaryFolder.js'

const folder = temporaryFolder('completion')
const scripts = new Map<string, string>()

async function completion(shell: string): Promise<string> {
  const known = scripts.get(shell)
  if (known !== undefined) return known
  const { exitCode, stdout, stderr } = await runProgram(['completion', shell])
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  scripts.set(shell, stdout)
  return stdout
}

/** Returns the words that bash offers for the last word of a line. */
function offered(script: string, words: readonly string[]): string[] {
  const line = `COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _market_recorder; printf '%s\\n' "\${COMPREPLY[@]}"`
  const shell = spawnSync('bash', ['-c', `${script}\n${line}`, 'bash', 'market-recorder', ...words], {
    encoding: 'utf8',
  })
  expect(shell.stderr).toBe('')
  return shell.stdout.split('\n').filter((word) => word !== '')
}

describe('the completion of bash', () => {
  test.for<[readonly string[], readonly string[]]>([
    [['sta'], ['start', 'status']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish'],
    ],
    [['archive', 'ver'], ['verify']],
    [['archive', 'verify', '--co'], []],
    [
      ['simulate', '--scale', ''],
      ['tiny', 'small', 'live'],
    ],
    [['start', '--f'], ['--for']],
    [['init', '--record', 'fills', '--keep'], ['--keep-days']],
    [['nonsense', ''], []],
  ])('offers for %j: %j', async ([words, expected]) => {
    const found = offered(await completion('bash'), words)
    if (words[1] === 'verify') expect(found.every((word) => word.startsWith('--co'))).toBe(true)
    else expect(found).toEqual(expected)
  })
})

test.for(['bash', 'zsh', 'fish'])(
  '%s knows every command and option, and accepts the script',
  async (shell, { skip }) => {
    const script = await completion(shell)
    for (const { name, load } of commands) {
      expect(script).toContain(name)
      for (const { long } of (await load()).options) {
        expect(script).toContain(shell === 'fish' ? `-l ${(long ?? '').slice(2)} ` : long)
      }
    }
    const file = join(folder, shell)
    await writeFile(file, script)
    const { error, status, stderr } = spawnSync(shell, ['-n', file], { encoding: 'utf8' })
    skip(error !== undefined, `${shell} is not installed on this machine`)
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
  },
)
