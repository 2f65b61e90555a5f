/** Where an archive is, a folder or a bucket: paths are relative to its root, with slashes. Every method may be called again after it failed. */
export interface ArchiveTarget {
  /** As messages name it. Without credentials. */
  readonly name: string
  /** Everything below a prefix, ascending by path; files in the making are not among it. */
  list(prefix: string): Promise<{ readonly path: string; readonly bytes: number }[]>
  /** The whole of a small file; null when it is not there. */
  read(path: string): Promise<Buffer | null>
  /** A file of any size as one of this machine, until it is released. Throws when it is not there. */
  fetch(path: string): Promise<{ readonly localPath: string; release(): Promise<void> }>
  /** An empty folder of this machine for files in the making. What an earlier process left in it is gone. */
  stagingFolder(): Promise<string>
  /** Puts a finished file of the staging folder to its place, at once. */
  publish(localPath: string, path: string): Promise<void>
  /** Writes a small file at once and for good. False when there is one already. */
  create(path: string, text: string): Promise<boolean>
  remove(path: string): Promise<void>
  close(): Promise<void>
}
