/** Length of a run. Its fills share a side and, except for sweeps, a price. 16 runs make a minute. */
export const runMs = 3_750
