/** A recorder that departs requests: one run of a machine. */
export interface Sender {
  readonly name: string
  /** Returns true once it is told to stop or has ended. Another one may then send at once. */
  isLeaving(): boolean
  /** Returns true once the database gave it the right to send. */
  hasHadRight(): boolean
}

/**
 * Least time between the last request of a recorder that did not sign off and the first of its successor. The lease
 * leaves half a second. Clocks that drift and timers that are late may use a fifth of it.
 */
export const apartMs = 400

/** Two recorders of one address never send at the same time, however few requests that makes. */
export function watchSenders() {
  const last = new Map<Sender, number>()
  return {
    /** Returns what is wrong with a departure. */
    departs(sender: Sender, atMs: number): string | null {
      if (!sender.hasHadRight()) return `${sender.name} sends, and was never given the right`
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
