#!/usr/bin/env node
import { runProgram } from './cli/program.js'
import { endWithin } from './cli/wait.js'
import { keepHeapSmall } from './runtime/heap.js'

keepHeapSmall()
process.exitCode = await runProgram(process.argv)
endWithin(3_000)
