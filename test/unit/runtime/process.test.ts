import fc from 'fast-check'
import { expect, test } from 'vitest'
import { inUrl, isLoopback, withoutBrackets } from '../../../src/runtime/process.js'

test.for([
  ['localhost', true],
  ['127.0.0.1', true],
  ['127.9.9.9', true],
  ['127.255.0.9', true],
  ['::1', true],
  ['0.0.0.0', false],
  ['::', false],
  ['10.0.0.1', false],
  ['192.168.1.7', false],
  ['127.example.com', false],
  ['localhost.example.com', false],
  ['128.0.0.1', false],
] as const)('%s is reached from this machine alone: %s', ([host, expected]) => {
  expect(isLoopback(host)).toBe(expected)
})

test('a URL of this machine is told by its host, with an address of IPv6 in brackets, too', () => {
  for (const url of ['http://localhost:80', 'http://127.0.0.1/path', 'https://[::1]:8443'])
    expect(isLoopback(withoutBrackets(new URL(url).hostname)), url).toBe(true)
})

test('any address comes back from the URL it was put into', () => {
  fc.assert(
    fc.property(fc.oneof(fc.ipV4(), fc.ipV6(), fc.domain()), (host) => {
      const { hostname } = new URL(`http://${inUrl(host)}:8080/`)
      // URLs write addresses their own way: what was written so stays.
      expect(inUrl(withoutBrackets(hostname))).toBe(hostname)
      expect(new URL(`http://${inUrl(withoutBrackets(hostname))}/`).hostname).toBe(hostname)
    }),
  )
})
