import { writeFileSync } from 'node:fs'
import { generatedFiles } from './generatedFiles.js'

// Run from the repository's root, as npm does.
for (const [path, text] of await generatedFiles()) {
  writeFileSync(path, text)
  console.log(path)
}
