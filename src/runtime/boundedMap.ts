import { bounds } from '../market/bounds.js'

/** A map of what is known of instruments. Beyond the bound it forgets the oldest: a service may name ever new ones. */
export class BoundedMap<Value> extends Map<string, Value> {
  override set(key: string, value: Value): this {
    this.delete(key)
    super.set(key, value)
    if (this.size <= bounds.knownInstruments) return this
    for (const oldest of this.keys()) {
      this.delete(oldest)
      break
    }
    return this
  }
}
