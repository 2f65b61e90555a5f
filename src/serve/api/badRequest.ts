/** A request that cannot be answered as it is: the message says what to change. */
export class BadRequest extends Error {}
