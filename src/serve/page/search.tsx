import { useEffect, useRef, useState } from 'preact/hooks'
import { useResponse } from './loaded.js'
import type { ChangeView } from './view.js'

const pauseMs = 120

/** Finds an instrument by its symbol: a text field with a list of matches, reached with the "/" key from anywhere. */
export function Search({ change }: { change: ChangeView }) {
  const input = useRef<HTMLInputElement>(null)
  const [text, setText] = useState('')
  const [asked, setAsked] = useState('')
  const [isOpen, setOpen] = useState(false)
  const [active, setActive] = useState(0)
  const question = { search: asked, limit: 12 }
  const { response, isPrevious } = useResponse('/api/instruments', isOpen ? question : null, { keepsPrevious: true })
  // While the response to what was typed last is under way, the list is still that of what was typed before.
  const isCurrent = asked === text.trim() && response !== null && !isPrevious
  const [isEntered, setEntered] = useState(false)
  const found = isOpen ? (response?.instruments ?? []) : []

  useEffect(() => {
    const timer = setTimeout(() => setAsked(text.trim()), pauseMs)
    return () => clearTimeout(timer)
  }, [text])
  useEffect(() => setActive(0), [response])
  useEffect(() => {
    if (!isEntered || !isCurrent) return
    setEntered(false)
    choose(0)
  }, [isEntered, isCurrent])
  useEffect(() => {
    const onKey = (event: KeyboardEvent) => {
      const isTyping = event.target instanceof HTMLInputElement && event.target.type !== 'radio'
      if (event.key !== '/' || isTyping || event.ctrlKey || event.metaKey || event.altKey) return
      event.preventDefault()
      input.current?.focus()
    }
    addEventListener('keydown', onKey)
    return () => removeEventListener('keydown', onKey)
  }, [])

  const choose = (index: number) => {
    const chosen = found[index]
    if (chosen === undefined) return
    change({ category: chosen.category, symbol: chosen.symbol, shows: 'instrument' })
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
      <ul id="found" role="listbox" aria-label="Instruments" hidden={found.length === 0}>
        {found.map(({ category, symbol, status, disappearedAt }, index) => (
          <li
            key={`${category} ${symbol}`}
            id={`found-${index}`}
            role="option"
            aria-selected={index === active}
            // Before the field loses the focus and the list closes.
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
    </div>
  )
}
