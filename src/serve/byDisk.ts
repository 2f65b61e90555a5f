import type { Status } from './api/contract.js'

interface Facts {
  readonly database: Pick<Status['database'], 'isReachable'>
  readonly problems: Status['problems']
}

/** Returns true while responses go to the disk for longer than a busy machine needs, and none is lost. */
export function goByDisk({ database, problems }: Facts): boolean {
  const ofSpool = problems.filter(({ about }) => about === 'spool')
  return (!database.isReachable || ofSpool.length > 0) && ofSpool.every(({ isBlocking }) => !isBlocking)
}
