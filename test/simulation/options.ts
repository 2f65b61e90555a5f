import { Command, CommanderError, InvalidArgumentError } from 'commander'
import type { MarketOptions } from './market.js'

/** The options of `npm run worlds`. */
export interface WorldsOptions {
  readonly seed: number
  /** 0: until stopped. */
  readonly seeds: number
  readonly minutes: number
  /** Places of faults in the world's plan, from 0. */
  readonly faults?: readonly number[]
  readonly instruments?: number
  readonly tokens: number
  readonly busiest: number
  readonly books: number
  readonly trace: boolean
  readonly hash: boolean
  readonly minimise: number
  readonly stopAtFirst: boolean
  readonly twice: boolean
}

/** Reads a command line. Returns an exit code if there is nothing to run: 0 after the help, 2 after an error of one line. */
export function worldsOptions(argv: readonly string[]): WorldsOptions | number {
  const command = new Command('npm run worlds --')
    .description(
      'Recorders, service, database, networks and disks in simulated time, with everything that goes wrong drawn from a seed.\n' +
        'The same seed is the same world, event by event.',
    )
    .usage('[options]')
    .option('--seed <number>', 'the first seed', wholeFrom(0), 1)
    .option('--seeds <count>', 'how many seeds, from the first one on; 0: until stopped', wholeFrom(0), 1)
    .option('--minutes <count>', 'simulated minutes of each world', wholeFrom(1), 30)
    .option('--faults <places>', "only these of the world's faults, by their places from 0, such as 0,3,4", places)
    .option(
      '--instruments <count>',
      "a market of so many instruments instead of the seed's, with two faults an hour, and how complete it is in the end",
      wholeFrom(1),
    )
    .option(
      '--tokens <count>',
      'so many tokenised stocks beside them, most of them without a fill for days: with a tenth of each limit, a ' +
        'backfill, a restart a day, why requests were made, and what has not closed in the end',
      wholeFrom(0),
      0,
    )
    .option('--busiest <fills>', 'fills an hour of the busiest of them', wholeFrom(1), 3_600)
    .option('--books <seconds>', 'how often their order books are recorded', wholeFrom(1), 60)
    .option('--trace', 'print everything that happens', false)
    .option('--hash', 'print the hash of everything that happened: of two equal worlds it is the same', false)
    .option(
      '--minimise <attempts>',
      'look for the fewest faults with which a world still goes wrong, in at most so many attempts',
      wholeFrom(0),
      0,
    )
    .option('--stop-at-first', 'end with the first world that goes wrong', false)
    .option('--twice', 'run each world twice, and say whether both were the same, event by event', false)
    .allowExcessArguments(false)
    .exitOverride()
    .configureOutput({ writeErr: (text) => void process.stderr.write(`${text.trim().replace(/\n+/g, ' ')}\n`) })
  try {
    return command.parse(argv, { from: 'user' }).opts<WorldsOptions>()
  } catch (error) {
    if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : 2
    throw error
  }
}

/** The market that is asked for instead of that of a seed. */
export function marketOf(asked: WorldsOptions): { readonly market?: MarketOptions } {
  const { tokens, busiest, books, instruments = Math.ceil(tokens / 10) } = asked
  return instruments === 0 ? {} : { market: { instruments, tokens, busiestPerHour: busiest, booksEverySeconds: books } }
}

/** The command that runs one world again. */
export function commandFor(
  { minutes, instruments, tokens, busiest, books }: WorldsOptions,
  seed: number,
  places?: readonly number[],
) {
  const thin = tokens === 0 ? '' : ` --tokens ${tokens}`
  const few = instruments === undefined ? '' : ` --instruments ${instruments}`
  const market = thin + few === '' ? '' : `${few}${thin} --busiest ${busiest} --books ${books}`
  const only = places === undefined ? '' : ` --faults "${places.join(',')}"`
  return `npm run worlds -- --seed ${seed} --minutes ${minutes}${market}${only} --trace`
}

function wholeFrom(min: number) {
  return (text: string): number => {
    const value = Number(text)
    if (!/^\d+$/.test(text) || !Number.isSafeInteger(value) || value < min)
      throw new InvalidArgumentError(`Give a whole number from ${min} on.`)
    return value
  }
}

/** An empty list is a choice, too: a world without faults. */
function places(text: string): readonly number[] {
  return text.split(',').filter(Boolean).map(wholeFrom(0))
}
