interface Node<Entry> {
  readonly entry: Entry
  readonly dueMs: number
  /** First of the nodes below this one. None of them is due before it. */
  child: Node<Entry> | null
  /** Next node below the same one. */
  next: Node<Entry> | null
}

/**
 * A pairing heap of entries by the time at which they are due. What it costs to add one, or to take the first, hardly
 * depends on their number. An entry whose time changes is added again. Its older place is passed over, as is that of an
 * entry that does not wait.
 */
export class DueHeap<Entry extends { readonly dueMs: number }> {
  readonly #isWaiting: (entry: Entry) => boolean
  #root: Node<Entry> | null = null

  constructor(isWaiting: (entry: Entry) => boolean) {
    this.#isWaiting = isWaiting
  }

  add(entry: Entry): void {
    this.#root = merged(this.#root, { entry, dueMs: entry.dueMs, child: null, next: null })
  }

  /** Returns the entry that is due first; null if none waits. It stays first until it waits no more. */
  first(): Entry | null {
    while (this.#root !== null) {
      const { entry, dueMs, child } = this.#root
      if (entry.dueMs === dueMs && this.#isWaiting(entry)) return entry
      this.#root = mergedInPairs(child)
    }
    return null
  }

  clear(): void {
    this.#root = null
  }
}

function merged<Entry>(one: Node<Entry> | null, other: Node<Entry>): Node<Entry> {
  if (one === null) return other
  const [above, below] = one.dueMs <= other.dueMs ? [one, other] : [other, one]
  below.next = above.child
  above.child = below
  return above
}

function mergedInPairs<Entry>(first: Node<Entry> | null): Node<Entry> | null {
  const pairs: Node<Entry>[] = []
  for (let node = first; node !== null;) {
    const second = node.next
    const after = second?.next ?? null
    node.next = null
    pairs.push(second === null ? node : merged(node, second))
    node = after
  }
  return pairs.reduceRight<Node<Entry> | null>(merged, null)
}
