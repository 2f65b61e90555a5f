import fc from 'fast-check'

export interface FuzzTarget {
  readonly name: string
  /** Makes one random input, and what gives it to the program: that rejects with what is a mistake of the program's. */
  prepare(seed: number): () => Promise<'taken' | 'refused'>
  close?(): Promise<void>
}

export function one<T>(arbitrary: fc.Arbitrary<T>, seed: number): T {
  const [value] = fc.sample(arbitrary, { numRuns: 1, seed })
  return value as T
}

/** Any that Unicode has room for, but halves of one. */
export const anyCharacter = fc
  .integer({ min: 0, max: 0x10_f7_ff })
  .map((number) => String.fromCodePoint(number < 0xd8_00 ? number : number + 0x8_00))

export const nastyText = fc.string({
  unit: fc.oneof(
    { weight: 5, arbitrary: anyCharacter },
    fc.constantFrom('\u0000', '\u001b', '\u202e', '\ud800', '"', '\\', ',', '[', '{', '龙'),
  ),
  maxLength: 40,
})
export const nastyNumber = fc.constantFrom('0', '-0', '1e999', '-1e-999', '9'.repeat(5_000), '1.50', '253402300800000')
/** Bytes that are changed: in most inputs none. */
export const cuts = fc.oneof(
  { weight: 2, arbitrary: fc.constant([]) },
  fc.array(fc.tuple(fc.double({ min: 0, max: 1, noNaN: true }), fc.integer({ min: 0, max: 255 })), { maxLength: 4 }),
)

export function broken(bytes: Buffer, changes: readonly (readonly [number, number])[]): Buffer {
  const copy = Buffer.from(bytes)
  for (const [at, byte] of changes) if (copy.length > 0) copy[Math.floor(at * (copy.length - 1))] = byte
  return copy
}
