// Tests, benchmarks, scripts and the page write times as plain numbers. A time of one clock is still refused for another
// one's. In the rest of src a plain number is no time, because `src/tsconfig.json` leaves this file out.
import type { TimesOutside as Strict } from './src/market/values.js'

declare module './src/market/values.js' {
  interface TimesOutside {
    readonly arePlain: true
  }
}

export type TimesAreOutside = Strict
