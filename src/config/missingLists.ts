import type { z } from 'zod'
import type { Category } from '../market/category.js'

interface Chooser {
  readonly enabled: boolean
  readonly select: { readonly categories: readonly Category[] }
}

/** Stream options that decide which lists the streams choose instruments from. */
interface ChoosingStreams {
  readonly instruments: { readonly enabled: boolean; readonly categories: readonly Category[] }
  readonly rpiSymbols: { readonly enabled: boolean }
  readonly orderBooks: Chooser
  readonly rpiOrderBooks: Chooser
  readonly fills: Chooser
  readonly candles: Chooser
}

interface MissingList {
  readonly path: string[]
  readonly message: string
}

function missingLists({ instruments, rpiSymbols, ...choosers }: ChoosingStreams): MissingList[] {
  const { orderBooks, rpiOrderBooks, fills, candles } = choosers
  const missing: MissingList[] = []
  const enabled = Object.entries({ orderBooks, rpiOrderBooks, fills, candles }).filter(([, { enabled: is }]) => is)
  if (!instruments.enabled && enabled.length > 0) {
    const who = enabled.map(([name]) => `streams.${name}`).join(', ')
    missing.push({ path: ['instruments', 'enabled'], message: `must be true while ${who} choose from its lists` })
  }
  if (instruments.enabled) {
    for (const [name, { select }] of enabled) {
      const unlisted = select.categories.filter((category) => !instruments.categories.includes(category))
      if (unlisted.length === 0) continue
      const message = `must not name what streams.instruments.categories leaves out (${unlisted.join(', ')}): the stream chooses from its lists`
      missing.push({ path: [name, 'select', 'categories'], message })
    }
  }
  if (rpiOrderBooks.enabled && !rpiSymbols.enabled) {
    missing.push({
      path: ['rpiSymbols', 'enabled'],
      message: 'must be true while streams.rpiOrderBooks chooses from its list',
    })
  }
  return missing
}

/** Streams of instruments choose from the lists: without them they would record nothing, and nobody would be told. */
export function refuseMissingLists(streams: ChoosingStreams, context: z.core.$RefinementCtx): void {
  for (const { path, message } of missingLists(streams))
    context.addIssue({ code: 'custom', path, message, input: streams })
}
