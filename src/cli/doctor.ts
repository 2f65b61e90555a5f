import type { Command } from 'commander'
import { type Finding, runDoctor } from '../doctor.js'
import { createLogger } from '../runtime/logger.js'
import { Failed } from './end.js'
import { type CommonOptions, configuredCommand, readConfig } from './options.js'

interface DoctorOptions extends CommonOptions {
  readonly json?: boolean
}

export function doctorCommand(): Command {
  return configuredCommand('doctor')
    .option('--json', 'print the findings as JSON')
    .addHelpText('after', '\nExample:\n  market-recorder doctor --config recorder.yaml')
    .action(printFindings)
}

const marks: Readonly<Record<Finding['verdict'], string>> = { ok: 'ok  ', warning: 'WARN', failure: 'FAIL' }

async function printFindings(options: DoctorOptions): Promise<void> {
  const findings = await runDoctor(await readConfig(options), createLogger('silent'))
  if (options.json === true) console.log(JSON.stringify(findings, null, 2))
  else for (const { verdict, what, detail } of findings) console.log(`${marks[verdict]}  ${what.padEnd(14)} ${detail}`)
  if (findings.some((finding) => finding.verdict === 'failure')) throw new Failed()
}
