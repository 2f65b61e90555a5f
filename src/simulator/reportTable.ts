import Table from 'cli-table3'
import { operations } from '../market/stream.js'
import type { Report } from './limits.js'

/** The report as a table for people: a row for each operation that was used, and one for all together. */
export function reportTable(report: Report): string {
  const table = new Table({
    head: ['source', 'operation', 'requests', 'rejected', 'highest/s', 'highest/min', 'blocks'],
    colAligns: ['left', 'left', 'right', 'right', 'right', 'right', 'right'],
    style: { head: [], border: [] },
  })
  for (const [source, { operations: used, overall }] of Object.entries(report)) {
    for (const operation of operations) {
      const { requests, rejected, highestPerSecond } = used[operation]
      if (requests > 0) table.push([source, operation, requests, rejected, highestPerSecond, '', ''])
    }
    const { requests, rejected, highestPerSecond, highestPerMinute, blocks } = overall
    table.push([source, 'all', requests, rejected, highestPerSecond, highestPerMinute, blocks])
  }
  return table.toString()
}
