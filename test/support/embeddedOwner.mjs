// Starts the embedded server in a process of its own, so that a test can kill it. Prints the URL, then waits; a line on
// standard input makes it stop the server and end.
import { startEmbeddedPostgres } from '../../dist/src/server/embedded/embedded.js'

// As the recorder does: Ctrl-C begins an orderly end and does not cut it short.
process.on('SIGINT', () => undefined)

const [dataDir] = process.argv.slice(2)
try {
  const server = await startEmbeddedPostgres({ dataDir })
  process.stdout.write(`${server.url}\n`)
  process.stdin.once('data', () => {
    void server.stop().then(() => process.exit(0))
  })
} catch (error) {
  process.stderr.write(`${error.message}\n`)
  process.exit(1)
}
