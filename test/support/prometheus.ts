import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface FiringAlert {
  readonly name: string
  /** `host:port` of the target that it is about. */
  readonly instance: string
  readonly labels: Readonly<Record<string, string>>
}

/** A real Prometheus. */
export interface Prometheus {
  firing(): Promise<FiringAlert[]>
  /** The values of an instant query. */
  values(query: string): Promise<{ readonly labels: Readonly<Record<string, string>>; readonly value: number }[]>
  /** Reads the problem of each target; empty text for one without a problem. */
  targetErrors(): Promise<string[]>
  close(): Promise<void>
}

/**
 * @param rules the text of a file of rules
 * @param instances `host:port` of what to scrape, by the name of the job that the rules know
 */
export async function startPrometheus(
  program: string,
  options: {
    readonly rules: string
    readonly job: string
    readonly instances: readonly string[]
    /** Time between two scrapes, and between two evaluations of the rules. By default as short as a test wants them. */
    readonly every?: readonly [scrape: string, evaluation: string]
  },
): Promise<Prometheus> {
  const [scrape, evaluation] = options.every ?? ['1s', '500ms']
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-prometheus-'))
  await writeFile(join(folder, 'rules.yml'), options.rules)
  await writeFile(
    join(folder, 'prometheus.yml'),
    `global: { scrape_interval: ${scrape}, evaluation_interval: ${evaluation} }
rule_files: [rules.yml]
scrape_configs:
  - job_name: ${options.job}
    static_configs: [{ targets: ${JSON.stringify(options.instances)} }]
`,
  )
  const args = [`--config.file=${join(folder, 'prometheus.yml')}`, `--storage.tsdb.path=${join(folder, 'data')}`]
  const child = spawn(program, [...args, '--web.listen-address=127.0.0.1:0'], { stdio: ['ignore', 'ignore', 'pipe'] })
  const close = async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    await rm(folder, { recursive: true, force: true })
  }
  let url: string
  try {
    url = await addressOf(child)
  } catch (error) {
    await close()
    throw error
  }

  async function ask<Answer>(path: string): Promise<Answer> {
    const response = await fetch(`${url}/api/v1/${path}`)
    return ((await response.json()) as { data: Answer }).data
  }
  type Labels = Record<string, string>
  return {
    async firing() {
      const { alerts } = await ask<{ alerts: { state: string; labels: Labels }[] }>('alerts')
      return alerts
        .filter(({ state }) => state === 'firing')
        .map(({ labels }) => ({ name: labels['alertname'] ?? '', instance: labels['instance'] ?? '', labels }))
    },
    async values(query) {
      const { result } = await ask<{ result: { metric: Labels; value: [number, string] }[] }>(
        `query?query=${encodeURIComponent(query)}`,
      )
      return result.map(({ metric, value: [, value] }) => ({ labels: metric, value: Number(value) }))
    },
    async targetErrors() {
      const { activeTargets } = await ask<{ activeTargets: { lastError: string }[] }>('targets')
      return activeTargets.map(({ lastError }) => lastError)
    },
    close,
  }
}

async function addressOf(child: ChildProcess): Promise<string> {
  let log = ''
  return new Promise((resolve, reject) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      log += chunk.toString()
      const address = /msg="Listening on" address=(\S+)/.exec(log)?.[1]
      if (address !== undefined) resolve(`http://${address}`)
    })
    child.on('error', reject)
    child.on('exit', () => reject(new Error(`prometheus ended:\n${log}`)))
  })
}
