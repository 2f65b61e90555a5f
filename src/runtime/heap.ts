import { setFlagsFromString } from 'node:v8'

/**
 * Collects garbage when the heap has grown by a fifth. By default V8 lets it grow to several times what is in use, because
 * it sizes itself by the machine's memory; a daemon that lives beside its database has better use for that.
 */
export function keepHeapSmall(): void {
  setFlagsFromString('--heap-growing-percent=20')
}
