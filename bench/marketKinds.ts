/** What the symbols of the kind that no recorder knows begin with. Apart from the simulator's program, which starts when imported. */
export const oddPrefix = 'ODD'
