import type { IncomingHttpHeaders, ServerResponse } from 'node:http'
import { describe, expect, test } from 'vitest'
import { clientOf, startFakeService } from '../../support/fakeService.js'

const user = 're corder'
// The base64 of it has a plus and a slash.
const password = 'p@ss/wörd?>~~4711&"xyz'
const sent = Buffer.from(`${user}:${password}`).toString('base64')
const login = `${encodeURIComponent(user)}:${encodeURIComponent(password)}@`
const htmlOf = (text: string) =>
  text.replaceAll(/[^a-z\d ]/gi, (character) => `&#x${character.codePointAt(0)?.toString(16)};`)
const phpOf = (text: string) => JSON.stringify(text).replaceAll('/', String.raw`\/`)
const style = `<style>${' '.repeat(1_950)}</style>`

/** Each way to say a text that echoes what was sent. */
const answers: Readonly<Record<string, (response: ServerResponse, text: string) => void>> = {
  'a page': (response, text) => response.writeHead(401).end(`<html><h1>Bad</h1>${text}</html>`),
  'a page with entities': (response, text) => response.writeHead(502).end(`<html>${htmlOf(text)}</html>`),
  'a page whose style is long': (response, text) => response.writeHead(403).end(`<html>${style}${text}</html>`),
  'plain text': (response, text) => response.writeHead(401).end(`no: ${text}`),
  'text within what is nearly JSON': (response, text) => response.writeHead(400).end(`{"a":"b" ${text}"}`),
  'JSON that ends early': (response, text) => response.writeHead(400).end(`{"a":[${text}`),
  'a message': (response, text) => response.end(`{"code":"40001","msg":${phpOf(text)},"data":null}`),
  'a message that is cut': (response, text) =>
    response.end(`{"code":"40001","msg":${phpOf(`${'x'.repeat(80)} ${text}`)},"data":null}`),
  'a code': (response, text) => response.end(`{"code":${phpOf(text)},"data":null}`),
  'a code that is no text': (response, text) => response.end(`{"code":1,"msg":${phpOf(text)}}`),
  'an older envelope': (response, text) => response.end(`{"err_code":${phpOf(text)},"err_msg":${phpOf(text)}}`),
  'a redirect': (response, text) =>
    response.writeHead(302, { location: `/login?auth=${encodeURIComponent(text)}` }).end(),
}

/** Pieces by which a secret would be known. */
const pieces = [password, sent, encodeURIComponent(password), 'ss/wörd', '4711', 'corder'].flatMap((secret) =>
  secret.length < 12 ? [secret] : Array.from({ length: secret.length - 7 }, (_, at) => secret.slice(at, at + 8)),
)

async function messageOf(answer: string, text: (headers: IncomingHttpHeaders) => string, isProxy: boolean) {
  const service = await startFakeService(({ headers }, response) => answers[answer]?.(response, text(headers)))
  const { host } = new URL(service.url)
  const client = isProxy
    ? clientOf('http://service.example', { proxy: `http://${login}${host}` })
    : clientOf(`http://${login}${host}`)
  const failure: unknown = await client.tickers({ category: 'SPOT' }).catch((error: unknown) => error)
  client.close()
  await service.close()
  return (failure as Error).message
}

describe('a login is in no message', () => {
  test.each(Object.keys(answers))('when a service, or its proxy, echoes it by %s', async (answer) => {
    for (const isProxy of [false, true]) {
      const headerOf = (headers: IncomingHttpHeaders) =>
        headers[isProxy ? 'proxy-authorization' : 'authorization'] ?? ''
      for (const text of [headerOf, () => `${user} ${password}`, () => encodeURIComponent(password)]) {
        const message = await messageOf(answer, text, isProxy)
        expect(message).toMatch(/^tickers SPOT: [a-z-]+: .{9}/)
        expect(
          pieces.filter((piece) => message.includes(piece)),
          message,
        ).toEqual([])
      }
    }
  })
})
