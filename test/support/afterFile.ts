import { afterAll } from 'vitest'
import { removeOwnFolder } from './program.js'

// After everything that the file itself does at its end.
afterAll(removeOwnFolder)
