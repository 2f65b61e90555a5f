import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { type Running, startProgram } from '../support/program.js'
import { startSimulatorProcess } from '../support/simulatorProcess.js'
import { type HostileService, startHostileService } from './hostileService.js'

/** A recorder with a database of its own, whose service stands between it and a simulator, and attacks it when told. */
export interface AttackedRecorder {
  readonly service: HostileService
  readonly created: TestDatabase
  readonly recorder: Running
  /** Ends the recorder and all that it uses. */
  close(): Promise<void>
}

/** @param config configuration of the recorder, as YAML */
export async function startAttackedRecorder(name: string, config: string): Promise<AttackedRecorder> {
  const folder = await mkdtemp(join(tmpdir(), `market-recorder-${name}-`))
  const simulator = await startSimulatorProcess(['--scale', 'small'])
  const service = await startHostileService(simulator.url)
  const created = await createTestDatabase()
  const file = join(folder, 'recorder.yaml')
  await writeFile(file, config)
  const recorder = startProgram(['start', '--config', file, '--data-dir', folder, '--allow-overload'], {
    DATABASE_URL: created.url,
    EXCHANGE_BASE_URL: service.url,
  })
  return {
    service,
    created,
    recorder,
    async close() {
      recorder.process.kill('SIGTERM')
      await recorder.finished
      await service.close()
      await simulator.close()
      await created.drop()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
