import pg from 'pg'

/** A response of the server that leaves the session as it was. */
export function isReply(error: unknown): boolean {
  return error instanceof pg.DatabaseError && !/^(08|57P|28|3D)/.test(error.code ?? '') && error.severity !== 'FATAL'
}

/** The server's machine says that there is no server, or the server that it lets nobody in. */
export function isRefusal(error: unknown): boolean {
  const cause = error instanceof AggregateError ? (error.errors[0] as unknown) : error
  const { code } = cause as { readonly code?: unknown }
  return code === 'ECONNREFUSED' || code === '57P01' || code === '57P02' || code === '57P03'
}

/** Without the table of the locks, nobody can have been given one. */
export function isNotMigrated(error: unknown): boolean {
  return error instanceof pg.DatabaseError && (error.code === '42P01' || error.code === '3F000')
}
