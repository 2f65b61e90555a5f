/** How long a computation may hold the event loop before it lets others have a turn. */
export const sliceMs = 1

export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve)
  })
}
