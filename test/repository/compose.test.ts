import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { loadConfig } from '../../src/config/resolve.js'
import { readRepositoryFile, repositoryRoot } from '../support/repositoryFiles.js'

interface Service {
  readonly image: string
  readonly user?: string
  readonly read_only?: boolean
  readonly cap_drop?: readonly string[]
  readonly security_opt?: readonly string[]
  readonly cap_add?: readonly string[]
  readonly mem_limit?: string
  readonly pids_limit?: number
  readonly networks?: readonly string[]
  readonly network_mode?: string
  readonly ports?: readonly string[]
  readonly volumes?: readonly string[]
  readonly tmpfs?: readonly string[]
  readonly environment?: Readonly<Record<string, string>>
  readonly healthcheck?: { readonly test: readonly string[] }
  readonly depends_on?: Readonly<Record<string, unknown>>
}
const text = readRepositoryFile('docker-compose.yml')
const { services, volumes, networks } = parse(text, { merge: true }) as {
  services: Record<string, Service>
  volumes: Record<string, unknown>
  networks: Record<string, unknown>
}
const all = Object.entries(services)

describe('docker-compose.yml', () => {
  test('has the services of a whole installation', () => {
    expect(Object.keys(services)).toEqual(
      expect.arrayContaining(['database', 'recorder', 'prometheus', 'grafana', 'simulator']),
    )
  })

  test('runs the recorder as an ordinary user on a read-only root, without capabilities, and watches its health', () => {
    for (const name of ['recorder', 'recorder-2', 'recorder-3', 'simulator']) {
      expect(services[name]).toMatchObject({
        user: '65532:65532',
        read_only: true,
        cap_drop: ['ALL'],
        security_opt: ['no-new-privileges:true'],
      })
    }
    expect(readRepositoryFile('Dockerfile')).toMatch(/^HEALTHCHECK [^]*\/healthz/m)
    expect(services.database?.healthcheck).toBeDefined()
  })

  test('bounds the memory and the processes of every service, and takes every capability that it does not need', () => {
    for (const [name, service] of all) {
      expect(service, name).toMatchObject({ cap_drop: ['ALL'], security_opt: ['no-new-privileges:true'] })
      expect(service.mem_limit, name).toMatch(/\d+[mg]\}?$/)
      expect(service.pids_limit, name).toBeLessThanOrEqual(500)
    }
    expect(services.database?.cap_add).not.toContain('NET_RAW')
  })

  test('lets nobody reach the database but the recorder and Grafana', () => {
    const inStore = all.filter(([, service]) => service.networks?.includes('store') ?? false).map(([name]) => name)
    expect(inStore.toSorted()).toEqual(['database', 'grafana', 'recorder', 'recorder-2', 'recorder-3'])
    expect(services.database?.networks).toEqual(['store'])
    expect(networks['store']).toEqual({ internal: true })
    expect(
      all.filter(([, { networks: joined, network_mode: mode }]) => joined === undefined && mode !== 'none'),
    ).toEqual([])
  })

  test('gives each recorder of the fleet a network and a folder of its own', () => {
    const fleet = ['recorder', 'recorder-2', 'recorder-3'].map((name) => services[name])
    const ways = fleet.flatMap((service) => service?.networks?.filter((name) => name.startsWith('outside')) ?? [])
    expect(new Set(ways).size).toBe(3)
    const folders = fleet.map((service) => service?.volumes?.find((mount) => mount.endsWith(':/data')))
    expect(new Set(folders).size).toBe(3)
  })

  test('listens nowhere beyond this machine', () => {
    const ports = all.flatMap(([, { ports: published = [] }]) => published)
    expect(ports.length).toBeGreaterThan(0)
    expect(ports.filter((port) => !port.startsWith('127.0.0.1:'))).toEqual([])
  })

  test('becomes the recorder of another service by no forgotten variable', () => {
    expect(services.recorder?.environment?.EXCHANGE_BASE_URL).toMatch(/^\$\{EXCHANGE_BASE_URL:\?/)
    expect(readRepositoryFile('.env.example')).toMatch(/^EXCHANGE_BASE_URL=/m)
    expect(readRepositoryFile('.gitignore').split('\n')).toContain('.env')
  })

  test('leaves no volume without a name behind', () => {
    const mounts = (name: string) => services[name]?.tmpfs ?? []
    expect(mounts('secrets')).toContain('/var/lib/postgresql/data')
    expect(mounts('simulator')).toContain('/data')
  })

  test('calls the database healthy only when its logins are there', () => {
    expect(services.database?.healthcheck?.test.join(' ')).toContain("'page'::regrole")
  })

  test('holds no password', () => {
    expect(text).not.toMatch(/:\/\/\w+:\w+@/)
    const variables = all.flatMap(([, { environment = {} }]) => Object.entries(environment))
    const secrets = variables.filter(([name]) => /PASSWORD|SECRET|TOKEN/.test(name))
    expect(secrets.filter(([name]) => !name.endsWith('_FILE'))).toEqual([])
  })

  test('names a version of each image', () => {
    const images = all.map(([, { image }]) => image).filter((image) => image !== 'market-recorder')
    expect(images.filter((image) => !/:v?\d+\.\d+/.test(image))).toEqual([])
  })

  test('mounts what is there', () => {
    const sources = all.flatMap(([, { volumes: mounts = [] }]) => mounts.map((mount) => mount.split(':')[0] ?? ''))
    const missing = sources.filter((source) =>
      source.startsWith('./') ? !existsSync(join(repositoryRoot, source)) : !(source in volumes),
    )
    expect(missing).toEqual([])
  })

  test.for(['simulator', 'fleet'])('is understood by docker compose, with the profile %s', (profile, { skip }) => {
    // The second one is what Debian calls it.
    const [command, ...first] = [['docker', 'compose'], ['docker-compose']].find(
      ([name = '', ...args]) => spawnSync(name, [...args, 'version']).status === 0,
    ) ?? ['']
    skip(command === '', 'docker compose is not installed on this machine')
    const { status, stderr } = spawnSync(command ?? '', [...first, '--profile', profile, 'config', '--quiet'], {
      cwd: repositoryRoot,
      encoding: 'utf8',
      env: { ...process.env, EXCHANGE_BASE_URL: 'http://simulator:8100' },
    })
    expect(stderr).toBe('')
    expect(status).toBe(0)
  })
})

test('config/compose/recorder.yaml is valid, and says where to listen and write', () => {
  const file = join(repositoryRoot, 'config/compose/recorder.yaml')
  expect(loadConfig({ file, env: {} })).toMatchObject({
    serve: { host: '0.0.0.0', port: 8080 },
    database: { dataDir: '/data' },
  })
})

test('the image takes no more of the repository than it builds from', () => {
  const allowed = readRepositoryFile('.dockerignore')
    .split('\n')
    .filter((line) => line.startsWith('!'))
    .map((line) => line.slice(1))
  const copied = [...readRepositoryFile('Dockerfile').matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(
    ([, sources = '']) => sources.split(' '),
  )
  expect(copied.length).toBeGreaterThan(4)
  expect(copied.filter((source) => !allowed.includes(source.split('/')[0] ?? ''))).toEqual([])
  expect(copied.filter((source) => !existsSync(join(repositoryRoot, source)))).toEqual([])
})
