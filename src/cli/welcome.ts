import type { Recorder } from '../app.js'

/** Lines for who has just started a recorder: where its page is, and how to query what it records. */
export function welcomeLines({ pageUrl, store }: Recorder): string {
  return [
    `  Page  ${pageUrl ?? 'not served'}`,
    `  SQL   psql '${store.isEmbedded ? store.readUrl : withoutPassword(store.readUrl)}'`,
    '  or    npx market-recorder query "select * from market.latest_tickers limit 5"',
  ].join('\n')
}

/** The login of a database that belongs to somebody else. psql asks for its password. */
function withoutPassword(address: string): string {
  const url = new URL(address)
  url.password = ''
  url.searchParams.delete('password')
  return url.href
}
