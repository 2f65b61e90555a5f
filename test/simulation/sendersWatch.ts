/** A recorder that departs requests: one run of a machine. */
export interface Sender {
  readonly name: string
  /** Whether it is told to stop or has ended: what it sent before that may be followed by another one's at once. */
  isLeaving(): boolean
}

/**
 * Who takes over from one that does not sign off waits for half a second longer than that one may still send. What clocks gain and
 * timers are late takes a part of it.
 */
export const apartMs = 400

/** Two recorders of one address never send at the same time, however few requests that makes. */
export function watchSenders() {
  const last = new Map<Sender, number>()
  return {
    /** Returns what is wrong with a departure. */
    departs(sender: Sender, atMs: number): string | null {
      last.set(sender, atMs)
      for (const [other, otherMs] of last) {
        if (other === sender) continue
        if (other.isLeaving() || atMs - otherMs > apartMs) last.delete(other)
        else return `${sender.name} sends ${Math.round(atMs - otherMs)} ms after ${other.name}, which may send, too`
      }
      return null
    },
  }
}
