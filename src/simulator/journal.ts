import type { Operation } from '../market/stream.js'
import type { TimeMs } from '../market/values.js'
import type { Delivered, Outcome } from './delivery.js'

/** A response as it was given to a client. */
export interface ServedResponse {
  /** The service's clock, the same as `requestTime` in the envelope. */
  readonly atMs: TimeMs
  /** The address that asked. */
  readonly source: string
  readonly operation: Operation
  readonly parameters: Readonly<Record<string, string>>
  readonly status: number
  /** `complete` only when the whole body was handed to the socket. */
  readonly delivered: Delivered
  /**
   * The client closed the connection after it, without asking for anything else on it. Mostly because it was done; but one that
   * gave up when it had read everything and understood nothing yet does the same.
   */
  readonly isLastOfConnection?: true
  /** When that was known, by the wall clock; absent while it is under way. */
  readonly deliveredAtMs?: TimeMs
  /** The envelope's `data` as it was sent; the numbers of order books as their exact text. Null for failures. */
  readonly data: unknown
}

/** Keeps every served response, when it is switched on. */
export class Journal {
  private responses: { -readonly [Key in keyof ServedResponse]: ServedResponse[Key] }[] = []
  constructor(
    private readonly isOn: boolean,
    private readonly now: () => TimeMs,
  ) {}

  /** Notes a response before it is sent; the function that is returned says what became of it. */
  begin(
    response: Omit<ServedResponse, 'delivered' | 'deliveredAtMs' | 'isLastOfConnection'>,
  ): (outcome: Outcome) => void {
    if (!this.isOn) return () => undefined
    const entry: (typeof this.responses)[number] = { ...response, delivered: 'none' }
    this.responses.push(entry)
    return (outcome) => {
      if (outcome === 'closed after') {
        entry.isLastOfConnection = true
        return
      }
      entry.delivered = outcome
      entry.deliveredAtMs = this.now()
    }
  }

  list(): readonly ServedResponse[] {
    return this.responses
  }

  clear(): void {
    this.responses = []
  }
}
