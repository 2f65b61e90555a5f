import { once } from 'node:events'
import { parentPort, Worker, workerData } from 'node:worker_threads'
import { type SimulatorOptions, startSimulator } from './server.js'

const marker = 'market-recorder simulator'

/** Simulator options that can be sent to a worker thread. */
type ThreadOptions = Pick<SimulatorOptions, 'scale' | 'seed' | 'port' | 'latencyMs'>

/**
 * Starts the simulated service in a worker thread. The service counts a request when its event loop sees it.
 * In the client's thread, other work would delay the count and make requests look like a burst.
 */
export async function startSimulatorThread(options: ThreadOptions): Promise<{ url: string; close(): Promise<void> }> {
  const worker = new Worker(new URL(import.meta.url), { workerData: { [marker]: options } })
  const [url] = (await once(worker, 'message')) as [string]
  return {
    url,
    async close() {
      await worker.terminate()
    },
  }
}

// Both sides run this module. Other threads may import it, too, but only a thread started here has the marker.
const handed = workerData as { readonly [marker]?: ThreadOptions } | null
if (handed?.[marker] !== undefined && parentPort !== null) {
  const simulator = await startSimulator(handed[marker])
  parentPort.postMessage(simulator.url)
}
