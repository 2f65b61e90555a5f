import { CreateBucketCommand, S3Client } from '@aws-sdk/client-s3'
import { spawn, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { packageFile } from '../../src/runtime/process.js'

const program = packageFile('test/support/s3Server.py')
/** Debian's packages are for its own Python, whatever else is installed. */
const python = '/usr/bin/python3'

/** Environment in which the SDK finds its credentials. Without it the SDK would ask the network for the machine's role. */
export const s3Environment = {
  AWS_ACCESS_KEY_ID: 'test:tester',
  AWS_SECRET_ACCESS_KEY: 'testing',
  AWS_EC2_METADATA_DISABLED: 'true',
  // It would say on standard error which versions of Node.js later releases want.
  AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED: 'true',
} as const

/** For the names of tests that are skipped; empty when the server is there. */
export function s3Missing(): string {
  const { status } = spawnSync(python, ['-c', 'import swift.common.middleware.s3api'])
  if (status === 0) return ''
  const hint = 'SKIPPED: no OpenStack Swift here; install it (Debian: apt-get install python3-swift)'
  process.stderr.write(`${hint}\n`)
  return ` (${hint})`
}

export interface S3Server {
  readonly url: string
  /** Makes an empty bucket. */
  makeBucket(name?: string): Promise<string>
  readonly client: S3Client
  close(): Promise<void>
}

/** OpenStack Swift with its S3 interface, on loopback, over a folder that goes with it. */
export async function startS3(): Promise<S3Server> {
  const quiet = 'AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'
  process.env[quiet] ??= s3Environment[quiet]
  const folder = await mkdtemp(join(tmpdir(), 'market-recorder-s3-'))
  // Its standard input is a pipe from here: when this process ends, however that is, so does the server.
  const child = spawn(python, [program, folder], {
    stdio: ['pipe', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], PYTHONDONTWRITEBYTECODE: '1' },
  })
  let complaints = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => (complaints += text))
  const url = await new Promise<string>((resolve, reject) => {
    child.stdout.setEncoding('utf8').once('data', (text: string) => resolve(text.trim()))
    child.once('close', () => reject(new Error(`the S3 server ended:\n${complaints}`)))
  })
  const client = new S3Client({
    endpoint: url,
    region: 'us-east-1',
    forcePathStyle: true,
    credentials: { accessKeyId: s3Environment.AWS_ACCESS_KEY_ID, secretAccessKey: s3Environment.AWS_SECRET_ACCESS_KEY },
  })
  return {
    url,
    client,
    async makeBucket(name = `archive-${randomBytes(4).toString('hex')}`) {
      await client.send(new CreateBucketCommand({ Bucket: name }))
      return name
    },
    async close() {
      client.destroy()
      const closed = new Promise((resolve) => child.once('close', resolve))
      child.kill('SIGKILL')
      await closed
      await rm(folder, { recursive: true, force: true })
    },
  }
}
