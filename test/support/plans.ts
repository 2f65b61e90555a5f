import pg from 'pg'
import { openDatabase } from '../../src/db/database.js'
import { migrateToLatest } from '../../src/db/migrate.js'
import { startEmbeddedPostgres } from '../../src/server/embedded/embedded.js'
import { createTestDatabase, type TestDatabase } from './database.js'
import { asAdmin } from './databaseServer.js'

/** What one statement did, by its own plan. */
interface PlannedStatement {
  readonly text: string
  /** Chunks that the plan reads, or left out only after it had locked them. */
  readonly chunks: number
  /** Rows that scans of tables of schema market looked at. */
  readonly rows: number
  /** Rows of the ledger that it looked at. */
  readonly ledgerRows: number
}

interface PlanNode {
  readonly 'Node Type': string
  readonly 'Relation Name'?: string
  readonly Schema?: string
  readonly 'Actual Rows'?: number
  readonly 'Actual Loops'?: number
  readonly 'Rows Removed by Filter'?: number
  readonly 'Subplans Removed'?: number
  readonly 'Chunks excluded during startup'?: number
  readonly 'Chunks excluded during runtime'?: number
  readonly Plans?: readonly PlanNode[]
}

/** Settings with which each session sends the plan of each statement, also of those inside of functions. */
const settings = {
  session_preload_libraries: 'auto_explain',
  'auto_explain.log_min_duration': '0',
  'auto_explain.log_format': 'json',
  'auto_explain.log_analyze': 'on',
  'auto_explain.log_timing': 'off',
  'auto_explain.log_verbose': 'on',
  'auto_explain.log_nested_statements': 'on',
  'auto_explain.log_level': 'notice',
}

/**
 * Makes a migrated database whose sessions send their plans. Only a superuser may say so, and nobody can log in as the
 * one of the embedded server, which is therefore started with these settings, a server for itself.
 */
export async function createExplainedDatabase(dataDir: string): Promise<TestDatabase> {
  if ((process.env.TEST_DATABASE_URL ?? '') !== '') {
    const created = await createTestDatabase()
    for (const [name, value] of Object.entries(settings))
      await asAdmin(created.url, `alter database ${new URL(created.url).pathname.slice(1)} set ${name} = '${value}'`)
    return created
  }
  const server = await startEmbeddedPostgres({ dataDir, settings: { ...settings, fsync: 'off' } })
  const database = openDatabase({ url: server.url })
  await migrateToLatest(database)
  return {
    url: server.url,
    database,
    async drop() {
      await database.close()
      await server.stop()
    },
  }
}

/** Collects the plans that all connections of this process receive, until `stop`. One of each text: the largest. */
export function collectPlans(): { readonly statements: Map<string, PlannedStatement>; stop(): void } {
  const statements = new Map<string, PlannedStatement>()
  const { prototype } = pg.Client
  const emit = prototype.emit
  prototype.emit = function (this: pg.Client, event: string | symbol, ...values: unknown[]): boolean {
    if (event === 'notice') add(statements, (values[0] as { readonly message?: string }).message ?? '')
    return emit.call(this, event, ...values)
  }
  return { statements, stop: () => (prototype.emit = emit) }
}

function add(statements: Map<string, PlannedStatement>, message: string): void {
  const json = /^duration: [\d.]+ ms {2}plan:\n(\{.*\})$/s.exec(message)?.[1]
  if (json === undefined) return
  const { 'Query Text': text, Plan: plan } = JSON.parse(json) as { 'Query Text': string; Plan: PlanNode }
  const nodes = nodesOf(plan)
  const read = nodes.filter(({ 'Actual Loops': loops }) => loops !== 0)
  const chunks = new Set(nodes.flatMap(({ 'Relation Name': name }) => (name?.includes('_hyper_') ? [name] : [])))
  const leftOut = nodes.map((node) => (node['Subplans Removed'] ?? 0) + (node['Chunks excluded during startup'] ?? 0))
  const rowsOf = (isCounted: (node: PlanNode) => boolean | undefined) => {
    const rows = read.filter(isCounted).map((node) => {
      return ((node['Actual Rows'] ?? 0) + (node['Rows Removed by Filter'] ?? 0)) * (node['Actual Loops'] ?? 1)
    })
    return Math.round(sum(rows))
  }
  const found = {
    text,
    chunks: chunks.size + sum(leftOut),
    rows: rowsOf((node) => node.Schema === 'market' || node['Relation Name']?.includes('_hyper_')),
    ledgerRows: rowsOf((node) => node['Relation Name'] === 'ledger'),
  }
  const before = statements.get(text)
  if (
    before === undefined ||
    before.chunks < found.chunks ||
    before.rows < found.rows ||
    before.ledgerRows < found.ledgerRows
  )
    statements.set(text, found)
}

function nodesOf(node: PlanNode): PlanNode[] {
  return [node, ...(node.Plans ?? []).flatMap(nodesOf)]
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)
