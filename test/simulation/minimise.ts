import type { PlannedFault } from './faultPlan.js'
import type { WorldReport } from './world.js'

/** Leaves out faults, many at a time and then one by one, as long as the world still goes wrong. */
export async function minimised(
  found: WorldReport,
  attempts: number,
  run: (faults: readonly PlannedFault[]) => Promise<WorldReport>,
): Promise<WorldReport> {
  let best = found
  let left = attempts
  for (let size = Math.ceil(best.plan.faults.length / 2); size >= 1 && left > 0; size = Math.floor(size / 2)) {
    for (let from = 0; from < best.plan.faults.length && left > 0; left--) {
      const fewer = best.plan.faults.filter((_, place) => place < from || place >= from + size)
      const report = await run(fewer)
      if (report.violations.length > 0) best = report
      else from += size
    }
  }
  return best
}
