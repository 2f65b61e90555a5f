import { type RawBuilder, sql } from 'kysely'

/** A condition that a number is finite. NaN sorts above Infinity, so one comparison on each side keeps both out. */
export function finite(column: string): RawBuilder<unknown> {
  return sql.raw(`${column} > '-Infinity' and ${column} < 'Infinity'`)
}

/** End of a statement that adds ranges to known ones. The statement must name its table `k`. */
export const adding = `on conflict (stream, category, symbol, type, interval, verdict, part) do update
        set ranges = k.ranges + excluded.ranges where not k.ranges @> excluded.ranges`
