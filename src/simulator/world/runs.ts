/** Fills of one run share price and side, but for sweeps, which walk away from that price. 16 runs make a minute. */
export const runMs = 3_750
