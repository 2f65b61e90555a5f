import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { connectionString, openPool } from '../../../src/db/pool.js'
import { createConnection } from '../../../src/lease/leaseConnection.js'

test('a certificate is read from a file, and not from what may have no end', () => {
  const url = (file: string) => connectionString(`postgresql://user@host/database?sslrootcert=${file}`)
  expect(() => url('/dev/zero')).toThrow('/dev/zero is no regular file')
  expect(url(import.meta.filename)).toContain('sslrootcert=')
  expect(url('/missing')).toContain('sslrootcert=')
})

test('whoever listens at the port of a server and asks for the password in clear text does not get it', async () => {
  let heard = ''
  const server = createServer((socket) => {
    let isAsked = false
    socket
      .on('error', () => undefined)
      .on('data', (data) => {
        // The first message names the login. The response asks for the password.
        if (isAsked) heard += data.toString('latin1')
        else socket.write(Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 3]))
        isAsked = true
      })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `postgresql://recorder:secret@127.0.0.1:${(server.address() as AddressInfo).port}/market`
  const pool = openPool({ url })
  try {
    await expect(pool.query('select 1')).rejects.toThrow('asks for the password in clear text')
    await expect(createConnection(url, 10_000).connect()).rejects.toThrow('asks for the password in clear text')
    expect(heard).toBe('')
  } finally {
    await pool.end()
    server.close()
  }
})
