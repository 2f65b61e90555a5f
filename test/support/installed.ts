import { existsSync } from 'node:fs'

/** Where a program of the system is, or why the tests that need it cannot run. */
interface InstalledProgram {
  readonly path: string | null
  /** For the names of tests that are skipped; empty when the program is there. */
  readonly hint: string
}

/** @param variable environment variable that says where it is; otherwise the usual folders are looked in */
function findInstalled(names: readonly string[], variable: string, install: string): InstalledProgram {
  const given = process.env[variable]
  const candidates =
    given === undefined || given === ''
      ? ['/usr/bin', '/usr/local/bin', '/snap/bin', '/opt/homebrew/bin'].flatMap((folder) =>
          names.map((name) => `${folder}/${name}`),
        )
      : [given]
  const path = candidates.find((candidate) => existsSync(candidate)) ?? null
  const hint = `SKIPPED: no ${names[0] ?? ''} here; install it (${install}) or set ${variable}`
  if (path === null) process.stderr.write(`${hint}\n`)
  return { path, hint: path === null ? ` (${hint})` : '' }
}

export const chromium = () =>
  findInstalled(['chromium', 'chromium-browser', 'google-chrome'], 'CHROMIUM', 'Debian: apt-get install chromium')
export const prometheus = () => findInstalled(['prometheus'], 'PROMETHEUS', 'Debian: apt-get install prometheus')
export const promtool = () => findInstalled(['promtool'], 'PROMTOOL', 'Debian: apt-get install prometheus')
export const jupyter = () => findInstalled(['jupyter'], 'JUPYTER', 'pip install -r examples/requirements.txt')
