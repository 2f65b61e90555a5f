import type { InstrumentResponse } from '../api/contract.js'
import { clockTime, decimal } from './format.js'
import './fills.css'
import { Panel } from './panel.js'

/** The newest fills that are stored, the newest first; null before they are known. */
export function Fills({ fills }: { fills: InstrumentResponse['fills'] | null }) {
  return (
    <Panel id="fills" title="Newest fills">
      {fills === null || fills.length === 0 ? (
        <p class="nothing">{fills === null ? 'Not known yet.' : 'No fill of this instrument is stored.'}</p>
      ) : (
        <table class="fills">
          <thead>
            <tr>
              <th scope="col">Time</th>
              <th scope="col" class="number">
                Price
              </th>
              <th scope="col" class="number">
                Size
              </th>
            </tr>
          </thead>
          <tbody>
            {fills.map(({ execId, ts, side, price, size }) => (
              <tr key={execId}>
                <td>
                  <time>{clockTime(ts)}</time> <span class="hidden">{side}</span>
                </td>
                <td class={`number ${side === 'buy' ? 'up' : 'down'}`}>{decimal(price)}</td>
                <td class="number">{decimal(size)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </Panel>
  )
}
