/** Groups elements by a key, in the order of their first element, as `Map.groupBy` does, which Node 20 lacks. */
export function groupBy<Element, Key>(elements: Iterable<Element>, keyOf: (element: Element) => Key) {
  const groups = new Map<Key, Element[]>()
  for (const element of elements) {
    const group = groups.get(keyOf(element))
    if (group === undefined) groups.set(keyOf(element), [element])
    else group.push(element)
  }
  return groups
}
