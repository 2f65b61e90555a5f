#!/usr/bin/env node
// Without a listener, Node opens its inspector on this signal. Any program of this user could then run code here.
process.on('SIGUSR1', () => undefined)

/** The types of Node lack WebAssembly. */
declare const WebAssembly: { readonly Memory: new (pages: { readonly initial: number }) => object }

try {
  // Fails with one line if there is no room. Node's HTTP client would end the process with a stack trace.
  void new WebAssembly.Memory({ initial: 1 })
  // Imported here, so that the error of a module that cannot be loaded is also one line.
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
