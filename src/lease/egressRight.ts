/** What a recorder knows about its right to send. Times are of the monotonic clock. */
export interface EgressEvidence {
  /** When the last check was sent that the server answered on the session that holds the lock. */
  readonly confirmedMs: number
  /** When the last attempt to connect was made that was refused, because there is no server. */
  readonly refusedMs: number
  /** Whether another recorder was waiting for the lock at the last confirmed check. */
  readonly hadStandby: boolean
  /** False once another recorder was found to have the lock. */
  readonly isOwner: boolean
  /** The right has ended for want of proof while another one was waiting, and was not confirmed since: it may have been given away. */
  readonly hasLapsed: boolean
}

export const nothingKnown: EgressEvidence = {
  confirmedMs: -Infinity,
  refusedMs: -Infinity,
  hadStandby: false,
  isOwner: false,
  hasLapsed: false,
}

/** How long a proof is good for. The server needs twice as long to give the lock of a lost session away. */
export const rightMs = 2_000

/**
 * Whether a recorder may go on sending. It may, if nobody else can have begun to:
 * - the session with the lock was alive a moment ago, or
 * - a moment ago there was no server that could have given the lock to anybody, nor at any time since the last proof: whoever gets it when the server is back
 *   keeps still for longer than this proof lasts (something in front of the server that refuses this machine alone is not told
 *   from that: then two may send until it ends), or
 * - the connection is lost, nobody knows why, and nobody was waiting for the lock. One that begins to wait only then is not
 *   known here: that both then send is the price for not losing an hour of data to every failure of the network.
 */
export function mayStillSend(
  { confirmedMs, refusedMs, hadStandby, isOwner, hasLapsed }: EgressEvidence,
  nowMs: number,
): boolean {
  if (!isOwner || hasLapsed) return false
  return nowMs - confirmedMs < rightMs || nowMs - refusedMs < rightMs || !hadStandby
}
