import { isFullDisk } from '../../runtime/disk.js'

/** Says what to do about a disk or a quota that is used up; any other failure as it is. */
export function explainFullDisk(error: unknown, folder: string): unknown {
  if (!isFullDisk(error)) return error
  return new Error(`no space is left on the disk of ${folder}: make room there; the same command goes on from here`, {
    cause: error,
  })
}
