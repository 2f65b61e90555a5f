// Copies packages with all that they depend on: node scripts/copyPackages.mjs FOLDER NAME…
// The image takes along only what the bundle loads from outside itself.
import { cpSync, existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

const [folder = '', ...names] = process.argv.slice(2)
/** @type {Set<string>} */
const copied = new Set()

/** @param {string} name @param {string} from path of the package that depends on it */
function copy(name, from) {
  // As Node looks it up: in the dependent package first, then in the folders above.
  let place = from
  while (place !== '' && !existsSync(join(place, 'node_modules', name))) {
    place = place.includes('node_modules') ? place.slice(0, Math.max(0, place.lastIndexOf('node_modules') - 1)) : ''
  }
  const path = join(place, 'node_modules', name)
  if (copied.has(path)) return
  copied.add(path)
  cpSync(path, join(folder, path.replace(/^node_modules\/?/, '')), { recursive: true })
  /** @type {{ dependencies?: Record<string, string> }} */
  const { dependencies = {} } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'))
  for (const dependency of Object.keys(dependencies)) copy(dependency, path)
}

for (const name of names) copy(name, '')
