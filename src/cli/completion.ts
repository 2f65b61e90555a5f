import { Argument, Command, type Option } from 'commander'

interface Entry {
  readonly name: string
  readonly description: string
  readonly load: () => Promise<Command>
}

interface Completed {
  /** Words that lead to the command, such as `archive verify`. */
  readonly path: string
  readonly command: Command
}

const examples = `
Examples:
  source <(market-recorder completion bash)                                              # in ~/.bashrc
  market-recorder completion zsh > "\${fpath[1]}/_market-recorder"
  market-recorder completion fish > ~/.config/fish/completions/market-recorder.fish`

export function completionCommand(entries: readonly Entry[]): Command {
  return new Command('completion')
    .addArgument(new Argument('<shell>', 'whose completion to print').choices(Object.keys(shells)))
    .addHelpText('after', examples)
    .action(async (shell: keyof typeof shells) => {
      const commands = await Promise.all(entries.map(loadEntry))
      process.stdout.write(shells[shell](commands, commands.flatMap(withSubcommands)))
    })
}

const shells = { bash, zsh, fish }

async function loadEntry({ name, description, load }: Entry): Promise<Completed> {
  return { path: name, command: (await load()).description(description) }
}

function withSubcommands({ path, command }: Completed): Completed[] {
  return [{ path, command }, ...command.commands.map((sub) => ({ path: `${path} ${sub.name()}`, command: sub }))]
}

function namesOf(options: readonly Option[]): string[] {
  return options.flatMap(({ long }) => (long === undefined || long === null ? [] : [long]))
}

function bash(commands: readonly Completed[], all: readonly Completed[]): string {
  const cases = all.map(({ path, command }) => {
    const words = [...wordsOf(command), ...namesOf(command.options)]
    return `    ${quoted(path)}) words=${quoted(words.join(' '))} ;;`
  })
  const choices = optionsWithChoices(all).map(
    ([name, values]) =>
      `    ${quoted(name)}) COMPREPLY=($(compgen -W ${quoted(values.join(' '))} -- "$current")); return ;;`,
  )
  return `_market_recorder() {
  local current=\${COMP_WORDS[COMP_CWORD]} path=\${COMP_WORDS[1]} words=''
  case "\${COMP_WORDS[1]} \${COMP_WORDS[2]}" in ${patterns(all)}) [ "$COMP_CWORD" -gt 2 ] && path="\${COMP_WORDS[1]} \${COMP_WORDS[2]}" ;; esac
  case "\${COMP_WORDS[COMP_CWORD - 1]}" in
${choices.join('\n')}
  esac
  [ "$COMP_CWORD" -eq 1 ] && path=''
  case "$path" in
    '') words=${quoted(commands.map(({ path }) => path).join(' '))} ;;
${cases.join('\n')}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _market_recorder market-recorder
`
}

function zsh(commands: readonly Completed[], all: readonly Completed[]): string {
  const cases = all.map(({ path, command }) => {
    const options = command.options.map((option) => `'${zshOption(option)}'`)
    const words = wordsOf(command)
    const rest = words.length === 0 ? `'*:file:_files'` : `'*:word:(${words.join(' ')})'`
    return `    ${quoted(path)}) _arguments ${[...options, rest].join(' ')} ;;`
  })
  const described = commands.map(({ path, command }) => `    ${quoted(`${path}:${command.description()}`)}`)
  return `#compdef market-recorder
_market_recorder() {
  local path_of_command="$words[2]"
  case "$words[2] $words[3]" in ${patterns(all)}) (( CURRENT > 3 )) && path_of_command="$words[2] $words[3]" ;; esac
  if (( CURRENT == 2 )); then
    local -a names=(
${described.join('\n')}
    )
    _describe command names
    return
  fi
  case "$path_of_command" in
${cases.join('\n')}
  esac
}
if [ "$funcstack[1]" = _market-recorder ]; then _market_recorder "$@"; else compdef _market_recorder market-recorder; fi
`
}

function zshOption({ long, description, required, argChoices }: Option): string {
  const text = description.replaceAll(/[[\]:']/g, ' ')
  const values = argChoices === undefined ? '_files' : `(${argChoices.join(' ')})`
  return `${long}[${text}]${required ? `:value:${values}` : ''}`
}

function fish(commands: readonly Completed[], all: readonly Completed[]): string {
  const lines = commands.map(
    ({ path, command }) =>
      `complete -c market-recorder -n __fish_use_subcommand -f -a ${path} -d ${quoted(command.description())}`,
  )
  for (const { path, command } of all) {
    const seen = path
      .split(' ')
      .map((word) => `__fish_seen_subcommand_from ${word}`)
      .join('; and ')
    for (const word of wordsOf(command)) {
      lines.push(`complete -c market-recorder -n ${quoted(seen)} -f -a ${word}`)
    }
    for (const { long, description, required, argChoices } of command.options) {
      const value = required ? (argChoices === undefined ? ' -r' : ` -x -a ${quoted(argChoices.join(' '))}`) : ''
      lines.push(
        `complete -c market-recorder -n ${quoted(seen)} -l ${(long ?? '').slice(2)}${value} -d ${quoted(description)}`,
      )
    }
  }
  return `${lines.join('\n')}\n`
}

/** Returns the words that may follow a command: its subcommands, and the choices of its arguments. */
function wordsOf({ commands, registeredArguments }: Command): readonly string[] {
  return [
    ...commands.map((command) => command.name()),
    ...registeredArguments.flatMap(({ argChoices }) => argChoices ?? []),
  ]
}

function optionsWithChoices(all: readonly Completed[]): [string, readonly string[]][] {
  const options = all.flatMap(({ command }) => command.options)
  return [...new Map(options.flatMap(({ long, argChoices }) => (long && argChoices ? [[long, argChoices]] : [])))]
}

/** Returns the paths of two words as alternatives of a shell's `case`. */
function patterns(all: readonly Completed[]): string {
  const nested = all.map(({ path }) => path).filter((path) => path.includes(' '))
  return nested.length === 0 ? "' '" : nested.map(quoted).join(' | ')
}

/** Quotes a word for a shell. Quotes in it become typographic, because the three shells escape them differently. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", '’')}'`
}
