import { afterEach, expect, test, vi } from 'vitest'
import { openBucket } from '../../../../src/files/bucket/client.js'
import { ListObjectsV2Command } from '@aws-sdk/client-s3'
import { systemClock } from '../../../../src/runtime/clock.js'
import { startFakeService } from '../../../support/fakeService.js'

afterEach(() => void vi.unstubAllEnvs())

test('a bucket that echoes our credentials gets them into no message', async () => {
  const secrets = {
    AWS_ACCESS_KEY_ID: 'AKIA/SECRET4711',
    AWS_SECRET_ACCESS_KEY: 'very+secret',
    AWS_SESSION_TOKEN: 'to/ken==',
  }
  for (const [name, value] of Object.entries(secrets)) vi.stubEnv(name, value)
  const service = await startFakeService(({ headers }, response) => {
    const echo = `${headers.authorization} ${String(headers['x-amz-security-token'])}`
    response.writeHead(400).end(`<Error><Code>Bad${echo}</Code><Message>Denied: ${echo}</Message></Error>`)
  })
  const place = { bucket: 'market', prefix: '', endpoint: service.url, forcePathStyle: true }
  const bucket = openBucket(place, { clock: systemClock })
  const failure: unknown = await bucket
    .send('list', (client, options) => client.send(new ListObjectsV2Command({ Bucket: 'market' }), options))
    .catch((error: unknown) => error)
  bucket.close()
  await service.close()
  const { message } = failure as Error
  expect(message).toMatch(/could not list \(400 Bad.*Denied: /)
  expect(
    Object.values(secrets).filter((secret) => message.includes(secret)),
    message,
  ).toEqual([])
})
