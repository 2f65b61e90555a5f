import { Command, CommanderError } from 'commander'
import { ConfigError } from '../config.js'
import { describeDatabaseError, isDatabaseError } from '../store/databaseError.js'
import { printable } from '../runtime/printable.js'
import { packageVersion } from '../runtime/version.js'
import { backfillCommand } from './backfill.js'
import { demoCommand } from './demo.js'
import { doctorCommand } from './doctor.js'
import { exportCommand } from './export.js'
import { exitCodes, Failed } from './failed.js'
import { gapsCommand } from './gaps.js'
import { mendCommand } from './mend.js'
import { migrateCommand } from './migrate.js'
import { planCommand } from './plan.js'
import { queryCommand } from './query.js'
import { simulateCommand } from './simulate.js'
import { startCommand } from './start.js'
import { statusCommand } from './status.js'
import { verifyCommand } from './verify.js'

export function createProgram(): Command {
  const program = new Command('market-recorder')
    .description("Records one exchange's public market data into PostgreSQL or TimescaleDB.")
    .version(packageVersion())
    .showHelpAfterError('(see --help)')
  for (const command of [
    demoCommand(),
    startCommand(),
    statusCommand(),
    backfillCommand(),
    gapsCommand(),
    verifyCommand(),
    mendCommand(),
    planCommand(),
    queryCommand(),
    exportCommand(),
    migrateCommand(),
    simulateCommand(),
    doctorCommand(),
  ]) {
    program.addCommand(command)
  }
  // Commander hands neither the error output nor the exit to commands that were built on their own.
  for (const command of [program, ...program.commands]) command.exitOverride()
  return program
}

/** Runs the command line and resolves to the exit code. A failure is told on standard error, one line for each problem. */
export async function runProgram(argv: readonly string[]): Promise<number> {
  try {
    await createProgram().parseAsync([...argv])
    return process.exitCode === undefined ? exitCodes.done : Number(process.exitCode)
  } catch (error) {
    if (error instanceof Failed) return error.exitCode
    // Commander has already said what is wrong.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.done : exitCodes.wrongUsage
    if (error instanceof ConfigError) {
      for (const problem of error.problems) process.stderr.write(`error: ${problem}\n`)
      return exitCodes.wrongUsage
    }
    process.stderr.write(`error: ${printable(describe(error).replaceAll(/\s*\n\s*/g, ' '))}\n`)
    return exitCodes.failed
  }
}

function describe(error: unknown): string {
  if (isDatabaseError(error)) return describeDatabaseError(error)
  return error instanceof Error ? error.message : String(error)
}
