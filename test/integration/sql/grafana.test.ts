import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { runReadOnlyQuery } from '../../support/readOnlyQuery.js'
import { loadCookbookMarket } from '../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { type Login, login } from '../../support/login.js'
import { readRepositoryFile, repositoryFiles } from '../../support/repositoryFiles.js'

interface Target {
  readonly rawSql?: string
  readonly expr?: string
  readonly format?: string
  readonly datasource: { readonly uid: string }
}
interface Panel {
  readonly title: string
  readonly targets: readonly Target[]
}
interface Dashboard {
  readonly title: string
  readonly panels: readonly Panel[]
  readonly templating: { readonly list: readonly { readonly name: string; readonly query: string }[] }
}

const dashboards = repositoryFiles(/^config\/grafana\/dashboards\/.*\.json$/).map(
  ({ text }) => JSON.parse(text) as Dashboard,
)
const targets = dashboards.flatMap(({ title, panels }) =>
  panels.flatMap((panel) => panel.targets.map((target) => ({ name: `${title}: ${panel.title}`, target }))),
)

/** Expands macros and variables of the dashboard in a query, as Grafana does. */
function expanded(query: string): string {
  const from = "'2026-03-02T00:00:00Z'"
  const to = "'2026-03-04T00:00:00Z'"
  return query
    .replaceAll(/\$__timeFilter\(([^)]+)\)/g, `$1 BETWEEN ${from} AND ${to}`)
    .replaceAll('$__timeFrom()', from)
    .replaceAll('$__timeTo()', to)
    .replaceAll('$__interval', '2m')
    .replaceAll('$category', 'USDT-FUTURES')
    .replaceAll('$symbol', 'BTCUSDT')
}

let created: TestDatabase
let reader: Login
beforeAll(async () => {
  created = await createTestDatabase()
  reader = await login(created, 'market_reader')
  await loadCookbookMarket(created.database.db)
})
afterAll(async () => {
  await reader.remove()
  await created.drop()
})

const run = async (query: string) => runReadOnlyQuery(reader.database, expanded(query), { timeoutMs: 60_000 })

describe('the dashboards', () => {
  it.each(targets.filter(({ target }) => target.rawSql !== undefined))(
    '$name gives rows to who only reads',
    async ({ target }) => {
      const { columns, rows } = await run(target.rawSql ?? '')
      expect(expanded(target.rawSql ?? '')).not.toContain('$')
      expect(rows.length).toBeGreaterThan(0)
      if (target.format !== 'time_series') return
      // Series need a time, and numbers or the name of a series beside it.
      expect(columns[0]).toMatchObject({ name: 'time', type: 'timestamptz' })
      for (const { name, type } of columns.slice(1)) expect(type).toBe(name === 'metric' ? 'text' : 'float8')
    },
  )

  it.each(dashboards.flatMap(({ templating }) => templating.list))(
    'the variable $name has values',
    async ({ query }) => {
      expect((await run(query)).rows.length).toBeGreaterThan(1)
    },
  )

  it('ask for metrics that there are', () => {
    const metrics = readRepositoryFile('docs/metrics.md')
    const named = targets.flatMap(({ target }) => target.expr?.match(/market_recorder_\w+/g) ?? [])
    expect(named.length).toBeGreaterThan(3)
    expect(named.filter((name) => !metrics.includes(`\`${name}\``))).toEqual([])
  })

  it('use sources that are provisioned', () => {
    const path = 'config/grafana/provisioning/datasources/market.yaml'
    const { datasources } = parse(readRepositoryFile(path)) as { datasources: { uid: string }[] }
    const uids = new Set(datasources.map(({ uid }) => uid))
    expect(targets.filter(({ target }) => !uids.has(target.datasource.uid))).toEqual([])
  })
})
