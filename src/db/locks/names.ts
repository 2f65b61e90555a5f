/**
 * Every lock that the recorder takes in the database, in one place. All of them are rows or tables of schema `recorder`: to
 * take one needs the right to write there, so that nobody who only reads can hold up the recording. (Advisory locks have no
 * such right: anybody who may connect can take any of them.)
 *
 * | lock                       | who takes it                              | what holds it      | for how long            |
 * | -------------------------- | ----------------------------------------- | ------------------ | ----------------------- |
 * | a row of candle_slice      | the worker that fetches a slice           | a lease in the row | 20 s, extended          |
 * | reconcile                  | start and migrate, changing features      | a session          | seconds to hours        |
 * | archive                    | who writes the archive or restores from it | a session         | minutes to hours        |
 * | instruments CATEGORY       | the writer of a list of instruments       | a transaction      | milliseconds            |
 * | rpi-symbols                | the writer of the RPI list                | a transaction      | milliseconds            |
 * | candle wants               | who adds a want or takes a slice          | a transaction      | milliseconds            |
 * | a row of recorder.known    | the writer of fills of an instrument      | a transaction      | milliseconds            |
 * | recorder.migration_lock    | start and migrate, changing the schema    | a transaction      | seconds                 |
 */
export const lockNames = {
  reconcile: 'reconcile',
  archive: 'archive',
  instruments: (category: string) => `instruments ${category}`,
  rpiSymbols: 'rpi-symbols',
  candleWants: 'candle wants',
} as const
