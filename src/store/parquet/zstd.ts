import { Zstd } from '@hpcc-js/wasm-zstd'

/** Zstandard, which Node has by itself only from version 22 on. */
export interface Compression {
  compress(input: Uint8Array): Uint8Array
  decompress(input: Uint8Array): Uint8Array
}

/** Higher levels take times as long and save little of numbers. */
const level = 3

let loading: Promise<Compression> | undefined

export async function loadZstd(): Promise<Compression> {
  loading ??= Zstd.load().then((zstd) => ({
    compress: (input) => zstd.compress(input, level),
    decompress: (input) => zstd.decompress(input),
  }))
  return loading
}
