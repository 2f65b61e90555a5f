import { useEffect, useState } from 'preact/hooks'
import { readView, type View, writeView } from './view.js'

export type ChangeView = (change: Partial<View>, how?: 'push' | 'replace') => void

export function useView(): [View, ChangeView] {
  const [view, setView] = useState(() => readView(location.search))
  useEffect(() => {
    const onBack = () => setView(readView(location.search))
    addEventListener('popstate', onBack)
    return () => removeEventListener('popstate', onBack)
  }, [])
  const change: ChangeView = (part, how = 'push') => {
    // The view is read from the address, not from the last render: two changes in one turn must not undo each other.
    const next = { ...readView(location.search), ...part }
    const url = writeView(next)
    if (how === 'push') history.pushState(null, '', url)
    else history.replaceState(null, '', url)
    setView(next)
  }
  return [view, change]
}
