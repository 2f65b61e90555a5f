import type { ComponentChildren, RefObject } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import './header.css'
import type { MarketResponses } from '../api/marketContract.js'
import { clockTime, day } from './format.js'
import { type Live, useResponse } from './loaded.js'
import { useWindowEvent } from './panel.js'
import { type ChangeView, readView, type View, type ViewProps, writeView } from './view.js'

interface HeaderProps extends ViewProps {
  readonly live: Live
  readonly now: number
}

export function Header({ live, now, view, change }: HeaderProps) {
  const health = healthOf(live)
  return (
    <header>
      <h1>
        <Tab to={home} change={change}>
          market-recorder
        </Tab>
      </h1>
      <nav aria-label="Views">
        {(['status', 'market', 'instrument', 'coverage', 'api'] as const).map((shows) => {
          const isNone = shows === 'instrument' && view.symbol === null
          return isNone ? null : (
            <Tab key={shows} to={{ ...view, shows }} change={change} isHere={view.shows === shows}>
              {shows === 'instrument' ? view.symbol : titles[shows]}
            </Tab>
          )
        })}
      </nav>
      <p class={`health ${health.level}`} role="status">
        <span class="dot" aria-hidden="true" />
        {health.text}
      </p>
      <Search change={change} />
      <p class="clock">
        <span class="dim">{day(now)}</span> <time>{clockTime(now)}</time> <span class="dim">UTC</span>
      </p>
    </header>
  )
}

/** Names of the views besides that of an instrument. */
export const titles = { status: 'Status', market: 'Market', coverage: 'Coverage', api: 'API' } as const

const home = readView('')

interface TabProps {
  readonly to: View
  readonly change: ChangeView
  readonly isHere?: boolean
  readonly children: ComponentChildren
}

/** Shows a link to a view. The page itself follows a plain click, and the browser any other. */
function Tab({ to, change, isHere = false, children }: TabProps) {
  const follow = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return
    event.preventDefault()
    change(to)
  }
  return (
    <a href={writeView(to)} aria-current={isHere ? 'page' : undefined} onClick={follow}>
      {children}
    </a>
  )
}

interface Health {
  readonly level: 'good' | 'warn' | 'bad' | 'unknown'
  readonly text: string
}

function healthOf({ status, isConnected }: Live): Health {
  if (!isConnected) return { level: 'bad', text: 'No connection' }
  if (status === null) return { level: 'unknown', text: 'Connecting' }
  const { phase, problems } = status
  if (phase === 'waiting') return { level: 'warn', text: 'Standing by' }
  if (phase === 'starting') return { level: 'warn', text: 'Starting' }
  if (phase === 'stopping') return { level: 'warn', text: 'Stopping' }
  if (problems.length === 0) return { level: 'good', text: 'Recording' }
  const level = problems.some(({ isBlocking }) => isBlocking) ? 'bad' : 'warn'
  return { level, text: problems.length === 1 ? '1 problem' : `${problems.length} problems` }
}

const pauseMs = 120

/** Finds an instrument by its symbol, with a list of matches. The "/" key moves to the text field. */
function Search({ change }: { change: ChangeView }) {
  const input = useRef<HTMLInputElement>(null)
  const [text, setText] = useState('')
  const asked = useSettled(text.trim())
  const [isOpen, setOpen] = useState(false)
  const [active, setActive] = useState(0)
  const question = { search: asked, limit: 12 }
  const { response, isPrevious } = useResponse('/api/instruments', isOpen ? question : null, { keepsPrevious: true })
  // While the newest response is awaited, the list still shows matches of the previous text.
  const isCurrent = asked === text.trim() && response !== null && !isPrevious
  const [isEntered, setEntered] = useState(false)
  const found = isOpen ? (response?.instruments ?? []) : []

  useEffect(() => setActive(0), [response])
  useEffect(() => {
    if (!isEntered || !isCurrent) return
    setEntered(false)
    choose(0)
  }, [isEntered, isCurrent])
  useSlash(input)

  const choose = (index: number) => {
    const chosen = found[index]
    if (chosen === undefined) return
    change({ category: chosen.category, symbol: chosen.symbol, shows: 'instrument', at: null })
    setOpen(false)
    setText('')
    input.current?.blur()
  }
  const onKeyDown = (event: KeyboardEvent) => {
    if (event.key === 'ArrowDown') setActive(Math.min(active + 1, found.length - 1))
    else if (event.key === 'ArrowUp') setActive(Math.max(active - 1, 0))
    else if (event.key === 'Enter' && isCurrent) choose(active)
    else if (event.key === 'Enter') setEntered(true)
    else if (event.key === 'Escape') {
      setOpen(false)
      input.current?.blur()
    } else return
    event.preventDefault()
  }
  return (
    <div class="search">
      <input
        ref={input}
        type="text"
        role="combobox"
        placeholder="Search instruments"
        aria-label="Search instruments"
        aria-keyshortcuts="/"
        aria-expanded={found.length > 0}
        aria-controls="found"
        aria-autocomplete="list"
        aria-activedescendant={found.length > 0 ? `found-${active}` : undefined}
        autocomplete="off"
        spellcheck={false}
        value={text}
        onInput={(event) => {
          setText(event.currentTarget.value)
          setOpen(true)
        }}
        onFocus={() => setOpen(true)}
        onBlur={() => setOpen(false)}
        onKeyDown={onKeyDown}
      />
      <kbd aria-hidden="true">/</kbd>
      {isOpen && isCurrent && found.length === 0 && (
        <p class="no-match" role="status">
          {asked === '' ? 'No instrument is known yet.' : `Nothing matches “${asked}”.`}
        </p>
      )}
      <Matches found={found} active={active} choose={choose} />
    </div>
  )
}

/** Returns a text once it has stayed the same for a moment. */
function useSettled(text: string): string {
  const [settled, setSettled] = useState('')
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), pauseMs)
    return () => clearTimeout(timer)
  }, [text])
  return settled
}

/** Moves to a text field when "/" is typed elsewhere. */
function useSlash(input: RefObject<HTMLInputElement | null>): void {
  useWindowEvent('keydown', (event) => {
    const isTyping = event.target instanceof HTMLInputElement && event.target.type !== 'radio'
    if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    input.current?.focus()
  })
}

interface MatchesProps {
  readonly found: MarketResponses['instruments']['instruments']
  readonly active: number
  readonly choose: (index: number) => void
}

function Matches({ found, active, choose }: MatchesProps) {
  return (
    <ul id="found" role="listbox" aria-label="Instruments" hidden={found.length === 0}>
      {found.map(({ category, symbol, status, disappearedAt }, index) => (
        <li
          key={`${category} ${symbol}`}
          id={`found-${index}`}
          role="option"
          aria-selected={index === active}
          // Runs before the field loses the focus, because the list then closes.
          onMouseDown={(event) => {
            event.preventDefault()
            choose(index)
          }}
        >
          <strong>{symbol}</strong> <span>{category}</span>{' '}
          <span class="dim">{disappearedAt === null ? (status === 'online' ? '' : status) : 'no longer listed'}</span>
        </li>
      ))}
    </ul>
  )
}
