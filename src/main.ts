#!/usr/bin/env node
// Node would open its inspector, through which anybody with this user's rights could run code here.
process.on('SIGUSR1', () => undefined)

/** The types of Node leave it out. */
declare const WebAssembly: { readonly Memory: new (pages: { readonly initial: number }) => object }

try {
  // Node's HTTP client, loaded in passing, would end the process with a stack trace where it has no room for this.
  void new WebAssembly.Memory({ initial: 1 })
  // Imported here, so that a module that cannot be loaded is one line, too.
  const { keepHeapSmall } = await import('./runtime/process.js')
  keepHeapSmall()
  const { runProgram } = await import('./cli/program.js')
  process.exitCode = await runProgram(process.argv)
  const { endWithin } = await import('./cli/end.js')
  endWithin(3_000)
} catch (error) {
  const why =
    (error as NodeJS.ErrnoException).code === 'EMFILE'
      ? 'too many open files; raise the limit (ulimit -n 1024)'
      : error instanceof RangeError && error.message.startsWith('WebAssembly')
        ? 'too little memory; raise the limit of virtual memory (ulimit -v unlimited)'
        : String(error)
  process.stderr.write(`error: the program cannot be loaded: ${why.replaceAll(/\s*\n\s*/g, ' ')}\n`)
  process.exitCode = 1
}
