import { Zstd } from '@hpcc-js/wasm-zstd'

/** Zstandard compression. Node itself has it only from version 22 on. */
export interface Compression {
  /** @param level from 1 (fast) up; default 3 */
  compress(input: Uint8Array, level?: number): Uint8Array
  /** Throws unless the input unfolds to exactly `bytes` bytes, and `bytes` is within the limit. */
  decompress(input: Uint8Array, bytes: number): Uint8Array
}

/** Largest size of a page, 256 MiB. Pages usually have about 1 MiB, but a single row may be longer. */
const maxBytes = 1 << 28

let loading: Promise<Compression> | undefined

export async function loadZstd(): Promise<Compression> {
  loading ??= Zstd.load().then((zstd) => {
    copyAtOnce(zstd)
    return {
      compress: (input, level = 3) => zstd.compress(input, level),
      decompress: (input, bytes) => {
        if (bytes > maxBytes || contentBytes(input) !== bytes)
          throw new Error('it unfolds to more than is ever written')
        return zstd.decompress(input)
      },
    }
  })
  return loading
}

/** Returns the content length in bytes that a frame declares; null if none. The library allocates that much. */
function contentBytes(frame: Uint8Array): number | null {
  const view = new DataView(frame.buffer, frame.byteOffset, frame.byteLength)
  if (view.getUint32(0, true) !== 0xfd2fb528) return null
  const descriptor = view.getUint8(4)
  const isSingle = (descriptor & 0x20) !== 0
  const place = 5 + (isSingle ? 0 : 1) + ([0, 1, 2, 4][descriptor & 3] ?? 0)
  switch (descriptor >> 6) {
    case 0:
      return isSingle ? view.getUint8(place) : null
    case 1:
      return view.getUint16(place, true) + 256
    case 2:
      return view.getUint32(place, true)
    default:
      return Number(view.getBigUint64(place, true))
  }
}

/** Access to the library's memory. */
interface Heap {
  heapView(block: unknown): Uint8Array
  heapToUint8Array(block: unknown): Uint8Array
}

/**
 * Makes the library copy results at once. It copies them number by number through a list, which takes longer than
 * compressing. Does nothing if the library has changed inside.
 */
function copyAtOnce(zstd: Zstd): void {
  const heap = (zstd as unknown as { readonly ['_mainModule']?: Partial<Heap> })['_mainModule']
  if (typeof heap?.heapView !== 'function' || typeof heap.heapToUint8Array !== 'function') return
  heap.heapToUint8Array = (block) => (heap as Heap).heapView(block).slice()
}
