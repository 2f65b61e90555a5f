import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** Calls `work` with a folder of its own, and removes the folder afterwards. */
export async function withFolder<Result>(name: string, work: (folder: string) => Promise<Result>): Promise<Result> {
  const folder = await mkdtemp(join(tmpdir(), `market-recorder-bench-${name}-`))
  try {
    return await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Writes a configuration file and returns its path. */
export async function configFile(folder: string, name: string, config: object): Promise<string> {
  const path = join(folder, `${name}.yaml`)
  // JSON is YAML.
  await writeFile(path, JSON.stringify(config))
  return path
}

/** Reads the metrics of a recorder. The returned function sums the series of a name whose labels hold a text. */
export async function readMetrics(url: string): Promise<(name: string, label?: string) => number> {
  const lines = (await (await fetch(`${url}/metrics`)).text()).split('\n')
  return (name, label = '') =>
    lines
      .filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && line.includes(label))
      .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}
