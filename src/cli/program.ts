import { Command, CommanderError } from 'commander'
import { ConfigError } from '../config/configError.js'
import { packageVersion } from '../runtime/process.js'
import { exitCodes, Failed, FailedAt } from './end.js'
import { tell, writeOut } from './output.js'

/**
 * Creates the command line. It only loads the commands that `isNeeded` names. For --help and the advice on a misspelt
 * command, the name and description of the others are enough.
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
  // Commander does not pass these settings on to commands that were created separately.
  for (const command of [program, ...program.commands]) {
    command
      .exitOverride()
      .configureOutput({ writeOut: (text) => void writeOut(text), writeErr: (text) => tell(text.trimEnd()) })
  }
  // List commands by name only, because the arguments of commands that are not loaded are unknown.
  return program.configureHelp({ subcommandTerm: (command) => command.name() })
}

/** Runs the command line. Resolves to the exit code. Errors go to standard error, one line per problem. */
export async function runProgram(argv: readonly string[]): Promise<number> {
  try {
    const asked = argv[2] === 'help' ? argv[3] : argv[2]
    const program = await createProgram((name) => name === asked)
    await program.parseAsync(withStatementLast(argv))
    return process.exitCode === undefined ? exitCodes.done : Number(process.exitCode)
  } catch (error) {
    if (error instanceof Failed) return error.exitCode
    // Commander has already printed the error.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.wrongUsage
    if (error instanceof ConfigError) {
      for (const problem of error.problems) tell(`error: ${problem}`)
      return exitCodes.wrongUsage
    }
    tell(`error: ${(await describe(error)).replaceAll(/\s*\n\s*/g, ' ')}`)
    if (error instanceof FailedAt) for (const line of error.excerpt) tell(line)
    return exitCodes.failed
  }
}

/** Moves a statement that begins with a comment behind `--`. It would be taken for an option. */
function withStatementLast(argv: readonly string[]): string[] {
  const at = argv.findIndex((argument) => /^--[^=\s]*\s/.test(argument))
  if (at < 0 || argv.includes('--')) return [...argv]
  return [...argv.slice(0, at), ...argv.slice(at + 1), '--', ...argv.slice(at, at + 1)]
}

async function describe(error: unknown): Promise<string> {
  // The module imports the client of the database, so it is loaded only for an error.
  const { describeError } = await import('../db/databaseError.js')
  return describeError(error)
}

interface CommandEntry {
  readonly name: string
  readonly description: string
  /** Loads the command with all code that it needs. */
  readonly load: () => Promise<Command>
}

/** Commands in the order of --help, which lists them without loading any. */
export const commands: readonly CommandEntry[] = [
  {
    name: 'demo',
    description:
      'Record a simulated exchange into an embedded PostgreSQL: everything in one process, nothing to set up.',
    load: async () => (await import('./demo.js')).demoCommand(),
  },
  {
    name: 'init',
    description: 'Write a configuration with your decisions, show what it costs, and say how to go on.',
    load: async () => (await import('./init.js')).initCommand(),
  },
  {
    name: 'start',
    description: 'Record until stopped: Ctrl-C or SIGTERM stores what it has received and exits.',
    load: async () => (await import('./start.js')).startCommand(),
  },
  {
    name: 'status',
    description: 'Show on one screen how the recorder is doing: streams, budget, backlog, gaps, backfills, incidents.',
    load: async () => (await import('./status.js')).statusCommand(),
  },
  {
    name: 'backfill',
    description:
      'Fetch the history of candles, fills or funding rates. Resumable; with a recorder on this host, that recorder does it.',
    load: async () => (await import('./backfill.js')).backfillCommand(),
  },
  {
    name: 'gaps',
    description: 'Show the known gaps by reason, and which of them can be repaired.',
    load: async () => (await import('./gaps.js')).gapsCommand(),
  },
  {
    name: 'verify',
    description:
      'Cross-check what is stored: coverage against rows, long candles against short ones, volumes against fills.',
    load: async () => (await import('./verify.js')).verifyCommand(),
  },
  {
    name: 'plan',
    description:
      "Show how much of the service's limits and of the disk the configuration needs, whether it fits, and what to change if not.",
    load: async () => (await import('./plan.js')).planCommand(),
  },
  {
    name: 'query',
    description: 'Run one read-only SQL statement and print its rows. Times are in UTC.',
    load: async () => (await import('./query.js')).queryCommand(),
  },
  {
    name: 'export',
    description: 'Write a relation of schema market, or a query, to Parquet or CSV files, decimals exact.',
    load: async () => (await import('./export.js')).exportCommand(),
  },
  {
    name: 'archive',
    description:
      'Write settled days to Parquet files with the proof of what they hold; verify, restore, certify and prune them.',
    load: async () => (await import('./archive.js')).archiveCommand(),
  },
  {
    name: 'migrate',
    description: 'Bring the database to the newest schema and its time-series features in line with the configuration.',
    load: async () => (await import('./migrate.js')).migrateCommand(),
  },
  {
    name: 'simulate',
    description: 'Run only the simulated exchange, with the limits of the real one.',
    load: async () => (await import('./simulate.js')).simulateCommand(),
  },
  {
    name: 'doctor',
    description: 'Check configuration, database, service, clock, limits, disk and archive, and say what to fix.',
    load: async () => (await import('./doctor.js')).doctorCommand(),
  },
]
