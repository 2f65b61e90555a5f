export const minuteMs = 60_000
export const hourMs = 3_600_000

/** Fills of one run share price and side, but for sweeps, which walk away from that price. 16 runs make a minute. */
export const runMs = 3_750
