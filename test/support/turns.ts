/** Counts the turns of the event loop from now on, until it is stopped. */
export function countTurns(): { readonly turn: number; stop(): void } {
  let turn = 0
  let isOver = false
  const count = () => {
    turn++
    if (!isOver) setImmediate(count)
  }
  count()
  return {
    get turn() {
      return turn
    },
    stop: () => void (isOver = true),
  }
}
