import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { guardsAgainstSites } from '../../../src/serve/security.js'

function app(host: string, allowedHosts: string[] = []) {
  return new Hono().use(...guardsAgainstSites({ host, allowedHosts })).get('/*', (context) => context.text('ok'))
}

test.each(['127.0.0.1:8080', 'localhost:8080', '[::1]:8080', '127.0.0.1'])('answers to %s', async (name) => {
  expect((await app('127.0.0.1').request('/', { headers: { host: name } })).status).toBe(200)
})

test.each(['evil.example', 'evil.example:8080', '127.0.0.1.evil.example', ''])(
  'does not respond to %s: a web site may have pointed that name here',
  async (name) => {
    expect((await app('127.0.0.1').request('/', { headers: { host: name } })).status).toBe(403)
  },
)

test('answers to any name when it was told to listen on more than this machine', async () => {
  expect((await app('0.0.0.0').request('/', { headers: { host: 'recorder.lan' } })).status).toBe(200)
})

test.each([
  ['recorder:8080', 200],
  ['RECORDER.example', 200],
  ['127.0.0.1:8080', 200],
  ['10.0.0.7:8080', 200],
  ['evil.example', 403],
  ['recorder.evil.example', 403],
  ['', 403],
])('where names are configured, %s is answered with %i', async (name, status) => {
  const { request } = app('0.0.0.0', ['recorder', 'Recorder.Example'])
  expect((await request('/', { headers: { host: name } })).status).toBe(status)
})

test.each([
  ['/api/status', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'cors' }, 403],
  ['/', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'no-cors', 'sec-fetch-dest': 'image' }, 403],
  ['/', { 'sec-fetch-site': 'cross-site' }, 403],
  ['/api/status', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }, 403],
  ['/', { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate', 'sec-fetch-dest': 'document' }, 200],
  ['/api/status', { 'sec-fetch-site': 'same-origin', 'sec-fetch-mode': 'cors' }, 200],
  ['/api/status', { 'sec-fetch-site': 'none' }, 200],
  ['/api/status', {}, 200],
])('%s asked for as %j is answered with %i', async (path, headers, status) => {
  expect((await app('127.0.0.1').request(path, { headers: { host: 'localhost', ...headers } })).status).toBe(status)
})

test('nothing from elsewhere may be loaded, nothing inline may run', async () => {
  const policy = (await app('127.0.0.1').request('/', { headers: { host: 'localhost' } })).headers.get(
    'content-security-policy',
  )
  expect(policy).toContain("default-src 'none'")
  expect(policy).toContain("script-src 'self'")
  expect(policy).not.toMatch(/unsafe|https?:|\*/)
})
