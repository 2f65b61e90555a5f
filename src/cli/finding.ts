import { oneLine } from '../market/oneLine.js'
import { messageOf } from '../runtime/text.js'
import type { Config } from '../config/resolve.js'
import { systemClock } from '../runtime/clock.js'
import type { Status } from '../serve/api/contract.js'
import { requireFreePort } from '../serve/server.js'
import { respondingAddress } from '../serve/source.js'
import { askRecorder } from './status.js'

export interface Finding {
  readonly what: string
  readonly verdict: 'ok' | 'warning' | 'failure'
  /** The finding, and the remedy unless the verdict is `ok`. */
  readonly detail: string
}

export const ok = (what: string, detail: string): Finding => ({ what, verdict: 'ok', detail })
export const warning = (what: string, detail: string): Finding => ({ what, verdict: 'warning', detail })
export const failure = (what: string, detail: string): Finding => ({ what, verdict: 'failure', detail })
export const reasonOf = (error: unknown) => oneLine(messageOf(error))

/** Checks that `start` can serve the page. A recorder of this data folder may serve it already. */
export async function checkPage({ serve, database }: Config): Promise<Finding[]> {
  if (!serve.enabled) return [ok('page', 'off')]
  const address = await respondingAddress(systemClock, database.dataDir)
  try {
    if (address !== null) {
      const page = ok('page', `a recorder of this data folder serves it at ${address}`)
      return [page, ...problemsOf(await askRecorder(address, serve.password))]
    }
    await requireFreePort(serve)
    return [ok('page', `${serve.host}:${serve.port} can be listened on`)]
  } catch (error) {
    return [failure('page', reasonOf(error))]
  }
}

/** Repeats what a recorder at work says of itself. It asks the service, and this command then does not. */
function problemsOf({ problems }: Status): Finding[] {
  if (problems.length === 0) return [ok('recorder', 'it records, and has no problem')]
  return problems.map(({ message, isBlocking }) => (isBlocking ? failure : warning)('recorder', message))
}
