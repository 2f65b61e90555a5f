import { describe, expect, test } from 'vitest'
import { reportTable, simulateCommand } from '../../../src/cli/simulate.js'
import { ask, start, stopAfterEach } from '../simulator/requests.js'

stopAfterEach()

/** Returns the command's message about wrong arguments. */
async function complaint(args: readonly string[]): Promise<string> {
  let said = ''
  const command = simulateCommand()
    .exitOverride()
    .configureOutput({ writeErr: (text) => (said += text) })
  await expect(command.parseAsync([...args], { from: 'user' })).rejects.toThrow()
  return said
}

describe('simulate', () => {
  test.each([
    [['--port', '70000'], 'Give a whole number from 0 to 65535.'],
    [['--port', 'http'], 'Give a whole number'],
    [['--port', '0', '--scale', 'huge'], 'Allowed choices are tiny, small, live.'],
    [['--port', '0', '--fault', 'htmll'], 'There is no fault "htmll". Known are latency, '],
    [['--port', '0', '--quirk', 'tickerTsZero=often'], 'tickerTsZero: Invalid input'],
    [['--port', '0', '--limit-factor', '0'], 'It must be a number above 0'],
    [['--port', '0', '--latency', '60-0'], 'the smaller first: 0-60'],
    [[], "required option '--port <number>' not specified"],
  ])('%j is refused in one line', async (args, message) => {
    const said = await complaint(args)
    expect(said).toContain(message)
    expect(said.trimEnd()).not.toContain('\n')
  })

  test('a taken port is an error that says what to do', async () => {
    const { port } = await start()
    await expect(start({ port })).rejects.toThrow(
      /the port is taken; choose another with --port, or 0 for any free one$/,
    )
  })

  test('the report has a line for each operation that was used, and one for all', async () => {
    const simulator = await start({ limits: { perSecond: { 'rpi-symbols': 1 } } })
    await ask(simulator, 'rpi-symbols')
    await ask(simulator, 'rpi-symbols')
    const lines = reportTable(simulator.control.report())
      .split('\n')
      .map((line) => line.match(/[\w.-]+/g) ?? [])
    expect(lines).toContainEqual(['127.0.0.1', 'rpi-symbols', '2', '1', '2'])
    expect(lines).toContainEqual(['127.0.0.1', 'all', '2', '1', '2', '2', '0'])
    expect(lines.flat()).not.toContain('tickers')
  })
})
