import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { type Kysely, sql } from 'kysely'
import type { Database } from './schema.js'
import { packageFile, packageVersion } from '../runtime/process.js'

/**
 * The functions of the database are files in SQL, `migrations/functions/*.sql`. They are no migrations: they are made
 * anew as a whole whenever one of them differs from what the database has. The list of migrations has one row for them,
 * with the version of the program and a digest of the files.
 */
const folder = 'migrations/functions/'
const label = 'functions'

interface FunctionFile {
  readonly name: string
  readonly text: string
}

/** Returns the row of the list of migrations that stands for the functions of this program. */
export function ownFunctions(): string {
  const hash = createHash('sha256')
  for (const { name, text } of functionFiles()) hash.update(`${name}\0${text}\0`)
  return `${label} ${packageVersion()} ${hash.digest('hex').slice(0, 16)}`
}

/** Returns true for a row of the list of migrations that stands for functions. */
export function areFunctions(migration: string): boolean {
  return migration.startsWith(`${label} `)
}

/** Returns true if a program with a higher version made these functions. */
export function areNewer(functions: string): boolean {
  const numbersOf = (version = '') => version.split(/[.-]/).map(Number)
  const [own, other] = [numbersOf(packageVersion()), numbersOf(functions.split(' ')[1])]
  const place = own.findIndex((number, index) => number !== other[index])
  return place >= 0 && (other[place] ?? 0) > (own[place] ?? 0)
}

/**
 * Drops the functions of schema `recorder`, because another version of one may have other parameters. A trigger stays.
 * Functions of schema `market` are only replaced, because views of users may depend on them.
 */
const dropOwnFunctions = sql`
  do $$
  declare
    old regprocedure;
  begin
    for old in
      select oid from pg_proc where pronamespace = 'recorder'::regnamespace and prorettype <> 'trigger'::regtype
    loop
      execute format('drop function %s', old);
    end loop;
  end
  $$`

/** Makes all functions, in place of other versions of them. Their files may name one another in any order. */
export async function replaceFunctions(trx: Kysely<Database>): Promise<void> {
  await sql`set local check_function_bodies = off`.execute(trx)
  await dropOwnFunctions.execute(trx)
  for (const { text } of functionFiles()) await sql.raw(text).execute(trx)
}

function functionFiles(): FunctionFile[] {
  const names = readdirSync(packageFile(folder)).filter((name) => name.endsWith('.sql'))
  return names.toSorted().map((name) => ({ name, text: readFileSync(packageFile(`${folder}${name}`), 'utf8') }))
}
