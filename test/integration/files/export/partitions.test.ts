import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import { expect, test } from 'vitest'
import { partitionValue } from '../../../../src/files/export/files.js'
import { temporaryFolder } from '../../../support/temporaryFolder.js'

const folder = temporaryFolder('partitions')

test('DuckDB reads every symbol from the name of its folder as it was sent', async () => {
  const database = await DuckDBInstance.create(':memory:')
  const duck = await database.connect()
  const long = '龙虾😀'.repeat(40)
  const symbols = ['NULL', 'null', '__HIVE_DEFAULT_PARTITION__', 'BRK/BUSDT', '.AIUSDT', "a'b*c?!~=", '龙虾USDT', long]
  for (const symbol of symbols) {
    const path = join(folder, `symbol=${partitionValue(symbol)}`)
    await mkdir(path)
    await duck.run(`copy (select '${symbol.replaceAll("'", "''")}' as sent) to '${path}/rows.parquet' (format parquet)`)
  }
  const read = `from read_parquet('${folder}/*/*.parquet', hive_partitioning = true)`
  const rows = (await duck.runAndReadAll(`select sent, symbol ${read}`)).getRowsJson() as [string, string][]
  expect(rows.map(([sent]) => sent).toSorted()).toEqual(symbols.toSorted())
  for (const [sent, symbol] of rows) {
    if (sent === long) expect(long.startsWith(symbol.split('~')[0] ?? '')).toBe(true)
    else expect(symbol).toBe(sent)
  }
  duck.closeSync()
})
