import { render } from 'preact'
import { App } from './app.js'
import { applyTheme, storedTheme } from './theme.js'

applyTheme(storedTheme())
const root = document.getElementById('app')
if (root !== null) {
  root.replaceChildren()
  render(<App />, root)
}
