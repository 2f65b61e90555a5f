import { type RawBuilder, sql } from 'kysely'

/** Returns a condition that a number is finite. NaN sorts above Infinity, so that the second comparison excludes it, too. */
export function finite(column: string): RawBuilder<unknown> {
  return sql.raw(`${column} > '-Infinity' and ${column} < 'Infinity'`)
}

/** End of a statement that adds ranges to known ones. The statement must name its table `k`. */
export const adding = `on conflict (stream, category, symbol, type, interval, verdict, part) do update
        set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges`
