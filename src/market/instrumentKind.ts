import type { Category } from './category.js'

/**
 * What an instrument stands for. Of a tokenised stock the market is a stock exchange elsewhere: its ticker follows the tape
 * there, and little of it trades here. An RWA perpetual is a futures contract on a real-world asset, and an ordinary market.
 */
export const instrumentKinds = [
  'crypto',
  'tokenised_stock',
  'rwa_perpetual',
  'rwa_token',
  'stock',
  'metal',
  'commodity',
  'other',
] as const
export type InstrumentKind = (typeof instrumentKinds)[number]

/** The fields of an instrument that tell its kind, as the service set them; null where it did not. */
export interface KindSigns {
  readonly category: Category
  readonly isReality: boolean | null
  readonly isRwa: boolean | null
  readonly symbolType: string | null
}

/**
 * The flags go first: `symbolType` was seen to call stocks crypto. It decides where no flag is set, and a value of it that is
 * not known is a kind of its own.
 */
export function kindOf({ category, isReality, isRwa, symbolType }: KindSigns): InstrumentKind {
  if (isReality === true) return 'tokenised_stock'
  if (isRwa === true && category.endsWith('FUTURES')) return 'rwa_perpetual'
  const type = symbolType?.toLowerCase() ?? 'crypto'
  if (type === 'metal' || type === 'stock' || type === 'commodity') return type
  if (isRwa === true) return 'rwa_token'
  return type === 'crypto' ? 'crypto' : 'other'
}
