import { expect, it } from 'vitest'
import { withoutLogin } from '../../../src/runtime/text.js'

it.each([
  ['http://user:secret@proxy.example.com:3128', 'http://proxy.example.com:3128'],
  ['https://token@api.example.com/a@b?c=@d', 'https://api.example.com/a@b?c=@d'],
  ['https://api.example.com/a@b', 'https://api.example.com/a@b'],
  ['socks5://user:sec@ret@host', 'socks5://host'],
  ['user:secret@host:3128', 'host:3128'],
  ['http://user:se/cr?et@host', 'http://host'],
  ['http://user:my\nsecret@host:not a port', 'http://host:not a port'],
  ['BTC*', 'BTC*'],
  ['', ''],
])('removes the login from %j', (address, shown) => {
  expect(withoutLogin(address)).toBe(shown)
})
