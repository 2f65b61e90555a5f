import type pg from 'pg'

export interface CatalogFunction {
  /** With its argument types, as `lo_create(oid)`. */
  readonly signature: string
  /** A call with plausible arguments. */
  readonly call: string
}

const values: Readonly<Record<string, string>> = {
  boolean: 'true',
  '"char"': `'r'::"char"`,
  integer: '1',
  bigint: '1::bigint',
  numeric: '1::numeric',
  'double precision': '0.01::float8',
  text: `'x'::text`,
  name: `'x'::name`,
  bytea: `'\\x00'::bytea`,
  oid: `'market.fills'::regclass::oid`,
  regclass: `'market.fills'::regclass`,
  regnamespace: `'market'::regnamespace`,
  refcursor: `'c'::refcursor`,
  tid: `'(0,1)'::tid`,
  xid: `'3'::xid`,
  xid8: `'3'::xid8`,
  pg_lsn: `'0/0'::pg_lsn`,
  interval: `interval '1 ms'`,
  'timestamp with time zone': 'now()',
  tsquery: `'a'::tsquery`,
  anyarray: 'array[1, 2]',
}

/** Null, with a note, for a type that a newer server is the first to use: its functions are called, but may do nothing. */
function plausible(type: string, signature: string): string {
  const value = values[type]
  if (value !== undefined) return value
  if (type.endsWith('[]')) return `array[${plausible(type.slice(0, -2), signature)}]`
  process.stdout.write(`${signature} is called with null: say what a plausible ${type} is\n`)
  return `null::${type}`
}

/** Those for which any value would not do harm where harm can be done. */
function special(pid: number): Readonly<Record<string, string>> {
  return {
    pg_cancel_backend: `pg_cancel_backend(${pid})`,
    pg_terminate_backend: `pg_terminate_backend(${pid}, 0)`,
    pg_log_backend_memory_contexts: `pg_log_backend_memory_contexts(${pid})`,
    pg_restore_relation_stats: `pg_restore_relation_stats('schemaname', 'market', 'relname', 'fills', 'relpages', 9999)`,
    pg_restore_attribute_stats: `pg_restore_attribute_stats('schemaname', 'market', 'relname', 'fills', 'attname', 'price', 'inherited', false, 'null_frac', 0.5::real)`,
    pg_clear_relation_stats: `pg_clear_relation_stats('market', 'fills')`,
    pg_clear_attribute_stats: `pg_clear_attribute_stats('market', 'fills', 'price', false)`,
    query_to_xml: `query_to_xml('delete from market.fills', true, true, '')`,
    set_config: `set_config('statement_timeout', '0', false)`,
    lo_export: `lo_export(1, '/tmp/x')`,
    lo_import: `lo_import('/etc/hostname')`,
  }
}

/** All functions of PostgreSQL itself that the session's user may call and that may change something. */
export async function changingFunctions(client: pg.Client, pid: number): Promise<CatalogFunction[]> {
  const { rows } = await client.query<{ name: string; signature: string; types: string[]; kind: string }>(
    `select proname as name, oid::regprocedure::text as signature, prokind as kind,
       array(select format_type(t, null) from unnest(proargtypes) with ordinality as a (t, i) order by i) as types
     from pg_proc
     where pronamespace = 'pg_catalog'::regnamespace and provolatile = 'v' and has_function_privilege(oid, 'execute')
       and prorettype not in ('trigger'::regtype, 'event_trigger'::regtype, 'language_handler'::regtype)
       and not 'internal'::regtype = any (proargtypes)
     order by 2`,
  )
  return rows.map(({ name, signature, types, kind }) => {
    const known = special(pid)[name]
    if (known !== undefined) return { signature, call: `select ${known}` }
    const list = types.map((type) => plausible(type, signature))
    return { signature, call: `${kind === 'p' ? 'call' : 'select'} pg_catalog.${name}(${list.join(', ')})` }
  })
}
