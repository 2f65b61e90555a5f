import { afterAll } from 'vitest'
import { leaveNothing } from './program.js'

// After everything that the file itself does at its end.
afterAll(leaveNothing)
