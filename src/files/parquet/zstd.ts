import { Zstd } from '@hpcc-js/wasm-zstd'

/** Zstandard, which Node has by itself only from version 22 on. */
export interface Compression {
  /** @param level from 1 (fast) up; default 3 */
  compress(input: Uint8Array, level?: number): Uint8Array
  decompress(input: Uint8Array): Uint8Array
}

let loading: Promise<Compression> | undefined

export async function loadZstd(): Promise<Compression> {
  loading ??= Zstd.load().then((zstd) => {
    copyAtOnce(zstd)
    return {
      compress: (input, level = 3) => zstd.compress(input, level),
      decompress: (input) => zstd.decompress(input),
    }
  })
  return loading
}

/** What the library has its memory in. */
interface Heap {
  heapView(block: unknown): Uint8Array
  heapToUint8Array(block: unknown): Uint8Array
}

/**
 * The library copies every result number by number through a list, which takes longer than compressing it. Where it is made as it
 * is known here, it copies it at once; otherwise it is left alone.
 */
function copyAtOnce(zstd: Zstd): void {
  const heap = (zstd as unknown as { readonly ['_mainModule']?: Partial<Heap> })['_mainModule']
  if (typeof heap?.heapView !== 'function' || typeof heap.heapToUint8Array !== 'function') return
  heap.heapToUint8Array = (block) => (heap as Heap).heapView(block).slice()
}
