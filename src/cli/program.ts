import { Command, CommanderError } from 'commander'
import { ConfigError } from '../config/configError.js'
import { printable } from '../runtime/printable.js'
import { packageVersion } from '../runtime/version.js'
import { commands } from './commands.js'
import { exitCodes, Failed, FailedAt } from './failed.js'

/**
 * The command line. Only the commands that `isNeeded` names are loaded; the others are known by name and description, as
 * much as --help and the advice on misspelt commands want.
 */
export async function createProgram(isNeeded: (name: string) => boolean = () => true): Promise<Command> {
  const program = new Command('market-recorder')
    .description("Records one exchange's public market data into PostgreSQL or TimescaleDB.")
    .version(packageVersion())
    .showHelpAfterError('(see --help)')
  for (const { name, description, load } of commands) {
    const command = isNeeded(name) ? await load() : new Command(name)
    program.addCommand(command.description(description))
  }
  // Commander hands neither the error output nor the exit to commands that were built on their own.
  for (const command of [program, ...program.commands]) command.exitOverride()
  // List commands by name only, because the arguments of commands that are not loaded are unknown.
  return program.configureHelp({ subcommandTerm: (command) => command.name() })
}

/** Runs the command line and resolves to the exit code. A failure is told on standard error, one line for each problem. */
export async function runProgram(argv: readonly string[]): Promise<number> {
  try {
    const asked = argv[2] === 'help' ? argv[3] : argv[2]
    const program = await createProgram((name) => name === asked)
    await program.parseAsync([...argv])
    return process.exitCode === undefined ? exitCodes.done : Number(process.exitCode)
  } catch (error) {
    if (error instanceof Failed) return error.exitCode
    // Commander has already said what is wrong.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.wrongUsage
    if (error instanceof ConfigError) {
      for (const problem of error.problems) process.stderr.write(`error: ${problem}\n`)
      return exitCodes.wrongUsage
    }
    process.stderr.write(`error: ${printable((await describe(error)).replaceAll(/\s*\n\s*/g, ' '))}\n`)
    if (error instanceof FailedAt) for (const line of error.excerpt) process.stderr.write(`${printable(line)}\n`)
    return exitCodes.failed
  }
}

async function describe(error: unknown): Promise<string> {
  // Load it only for an error, because the module imports the database's client.
  const { describeError } = await import('../db/databaseError.js')
  return describeError(error)
}
