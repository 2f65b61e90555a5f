import { constants, setPriority } from 'node:os'

/** Lets a process go before what is measured, as if it had a machine of its own: the service, or who plays it. */
export function favour(pid: number | undefined): void {
  setPriorityOf(pid, constants.priority.PRIORITY_HIGH)
}

/** Takes that back from a process that was started by a favoured one. */
export function favourNoMore(pid: number | undefined): void {
  setPriorityOf(pid, constants.priority.PRIORITY_NORMAL)
}

function setPriorityOf(pid: number | undefined, priority: number): void {
  try {
    if (pid !== undefined) setPriority(pid, priority)
  } catch {
    console.log('the simulator runs with ordinary priority: keep the machine quiet, or run as root')
  }
}
