import { useMemo, useState } from 'preact/hooks'
import { count } from './format.js'
import { useResponse } from './loaded.js'
import './market.css'
import { instrumentId, type Key, type Row, Rows } from './marketRows.js'
import { Panel } from './panel.js'
import type { ChangeView } from './view.js'

/** Shows all instruments with their newest ticker, sorted and filtered. */
export function Market({ change, now }: { change: ChangeView; now: number }) {
  const { response, error } = useResponse('/api/market', {}, { everyMs: 5_000 })
  const [text, setText] = useState('')
  const [category, setCategory] = useState('')
  const [kind, setKind] = useState('')
  const [isOnlyFavourites, setOnlyFavourites] = useState(false)
  const [favourites, toggleFavourite] = useFavourites()
  const [sort, setSort] = useState<{ readonly key: Key; readonly isUp: boolean }>({ key: 'turnover', isUp: false })
  const all = response?.instruments ?? []
  const shown = useMemo(
    () =>
      sorted(
        all.filter(
          (row) => matches(row, text, category, kind) && (!isOnlyFavourites || favourites.has(instrumentId(row))),
        ),
        sort.key,
        sort.isUp,
      ),
    [response, text, category, kind, isOnlyFavourites, favourites, sort],
  )
  return (
    <Panel id="market" title="Market" aside={<p class="aside">{`${count(shown.length)} of ${count(all.length)}`}</p>}>
      <div class="market-filter">
        <input
          type="search"
          aria-label="Filter instruments"
          placeholder="Filter, such as btc usdt"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <Choice name="All categories" values={all.map((row) => row.category)} chosen={category} choose={setCategory} />
        <Choice name="All kinds" values={all.map((row) => row.kind)} chosen={kind} choose={setKind} />
        <button type="button" aria-pressed={isOnlyFavourites} onClick={() => setOnlyFavourites(!isOnlyFavourites)}>
          ★ Favourites
        </button>
      </div>
      {error !== null && response === null && <p class="bad">{error}</p>}
      {response !== null && shown.length === 0 && (
        <p class="nothing">
          {all.length === 0
            ? 'No ticker of the last hour is stored: the stream of tickers brings them.'
            : favourites.size === 0 && isOnlyFavourites
              ? 'No favourites yet: the star before a symbol makes it one.'
              : 'No instrument matches. Fewer words find more.'}
        </p>
      )}
      <Rows
        rows={shown}
        now={now}
        favourites={favourites}
        onFavourite={toggleFavourite}
        sort={sort}
        onSort={(key) => setSort({ key, isUp: sort.key === key ? !sort.isUp : key === 'symbol' })}
        onOpen={(row) => change({ shows: 'instrument', category: row.category, symbol: row.symbol })}
      />
    </Panel>
  )
}

interface ChoiceProps {
  readonly name: string
  readonly values: readonly string[]
  readonly chosen: string
  readonly choose: (value: string) => void
}

function Choice({ name, values, chosen, choose }: ChoiceProps) {
  return (
    <select aria-label={name} value={chosen} onChange={(event) => choose(event.currentTarget.value)}>
      <option value="">{name}</option>
      {[...new Set(values)].toSorted().map((value) => (
        <option key={value} value={value}>
          {value.replaceAll('_', ' ')}
        </option>
      ))}
    </select>
  )
}

const favouritesKey = 'market-recorder.favourites'

/** Reads and stores the instruments that the user of this browser has marked. */
function useFavourites(): [ReadonlySet<string>, (row: Row) => void] {
  const [favourites, setFavourites] = useState(
    () => new Set((localStorage.getItem(favouritesKey) ?? '').split(' ').filter((id) => id !== '')),
  )
  const toggle = (row: Row) => {
    const next = new Set(favourites)
    if (!next.delete(instrumentId(row))) next.add(instrumentId(row))
    localStorage.setItem(favouritesKey, [...next].join(' '))
    setFavourites(next)
  }
  return [favourites, toggle]
}

/** Returns true if the instrument's names contain every word of the text. */
function matches(row: Row, text: string, category: string, kind: string): boolean {
  if ((category !== '' && row.category !== category) || (kind !== '' && row.kind !== kind)) return false
  const known = `${row.symbol} ${row.quoteCoin ?? ''} ${row.category} ${row.kind}`.toUpperCase()
  return text
    .toUpperCase()
    .split(/\s+/)
    .every((word) => known.includes(word))
}

/** Sorts rows. Rows without a value come last in both directions. */
function sorted(rows: readonly Row[], key: Key, isUp: boolean): readonly Row[] {
  const way = isUp ? 1 : -1
  if (key === 'symbol') return rows.toSorted((a, b) => way * (a.symbol < b.symbol ? -1 : a.symbol > b.symbol ? 1 : 0))
  const figures = new Map(rows.map((row) => [row, figure(row, key)]))
  return rows.toSorted((a, b) => {
    const [x = null, y = null] = [figures.get(a), figures.get(b)]
    if (x === null || y === null) return x === y ? 0 : x === null ? 1 : -1
    return way * (x - y)
  })
}

function figure(row: Row, key: Exclude<Key, 'symbol'>): number | null {
  // Ages grow as times fall, so the sign is reversed.
  if (key === 'ts') return -row.ts
  const value = row[key]
  return value === null ? null : Number(value)
}
