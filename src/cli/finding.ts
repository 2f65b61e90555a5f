import { oneLine } from '../market/values.js'
import { messageOf } from '../runtime/text.js'

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
