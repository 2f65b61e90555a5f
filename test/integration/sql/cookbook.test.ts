import { afterAll, beforeAll, expect, it } from 'vitest'
import { rowsTable } from '../../../src/cli/query.js'
import { runReadOnlyQuery } from '../../support/readOnlyQuery.js'
import { refreshRollups } from '../../../src/server/timescale/rollups.js'
import { loadCookbookMarket } from '../../support/cookbookMarket.js'
import { createTestDatabase, type TestDatabase } from '../../support/database.js'
import { type Login, login } from '../../support/login.js'
import { readRepositoryFile } from '../../support/repositoryFiles.js'

const page = readRepositoryFile('docs/sql.md')
/** A query, and below it its answer. */
const recipe = /```sql\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/g
/** Number of characters in a line of the page. */
const width = 120

let created: TestDatabase
/** Login that can only read, because the page is written for such readers. */
let reader: Login
beforeAll(async () => {
  created = await createTestDatabase()
  reader = await login(created, 'market_reader')
  const { db } = created.database
  await loadCookbookMarket(db)
  // The newer of the two days is left to be computed when it is asked for.
  await refreshRollups(db, [{ from: Date.UTC(2026, 2, 2), to: Date.UTC(2026, 2, 3) }])
})
afterAll(async () => {
  await reader.remove()
  await created.drop()
})

it('runs the first queries of the README', async () => {
  const [, block = ''] = /## First queries[\s\S]*?```sql\n([\s\S]*?)```/.exec(readRepositoryFile('README.md')) ?? []
  const statements = block.split(/;\n/).filter((text) => text.trim() !== '')
  expect(statements).toHaveLength(4)
  for (const statement of statements) {
    const { columns } = await runReadOnlyQuery(reader.database, statement, { timeoutMs: 60_000 })
    expect(columns.length).toBeGreaterThan(2)
  }
})

async function answer(query: string): Promise<string> {
  const { columns, rows } = await runReadOnlyQuery(reader.database, query, { timeoutMs: 60_000 })
  expect(rows.length, query).toBeGreaterThan(0)
  return `${rowsTable(columns, rows, width)}\n`
}

it('answers every question of docs/sql.md as the page says', async () => {
  const recipes = [...page.matchAll(recipe)]
  expect(readRepositoryFile('README.md')).toContain(`has ${recipes.length} more with their results`)
  expect(recipes.length).toBe([...page.matchAll(/^### /gm)].length)
  let answered = page
  for (const [whole, query = ''] of recipes) {
    const text = `\`\`\`sql\n${query}\`\`\`\n\n\`\`\`text\n${await answer(query)}\`\`\``
    answered = answered.replace(whole, () => text)
  }
  // To write new answers into the page: vitest --update on this file.
  await expect(answered).toMatchFileSnapshot('../../../docs/sql.md')
})
