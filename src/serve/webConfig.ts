import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { createSecureContext } from 'node:tls'
import { z } from 'zod'
import { ConfigError, unreadable } from '../config/configError.js'
import { requirement } from '../config/requirement.js'
import { type ConfigSource, parseYaml } from '../config/yaml.js'

/** Protection of the page: the content of a web configuration file, and of the files that it names. */
export interface WebConfig {
  /** Certificate and key in PEM; null for HTTP. */
  readonly tls: { readonly cert: string; readonly key: string } | null
  /** The bcrypt hash of each user's password, by name. */
  readonly users: ReadonlyMap<string, string>
}

// Each step of the cost doubles the time of a check, and other checks wait for it. Cost 15 already takes seconds.
const bcryptHash = z
  .string('must be a bcrypt hash with a cost of 4 to 15, as `htpasswd -nB NAME` makes it; correct it')
  .regex(/^\$2[aby]\$(0[4-9]|1[0-5])\$[./A-Za-z0-9]{53}$/)
// A name has no colon, because a colon ends it in the header that carries it.
const userName = z.string().regex(/^[^:]+$/)

const pemFile = z.string('must be the path of a PEM file; give it').min(1)

const fileSchema = z.strictObject(
  {
    tls_server_config: z
      .strictObject(
        { cert_file: pemFile, key_file: pemFile },
        'must be a group with cert_file and key_file; correct it',
      )
      .exactOptional(),
    basic_auth_users: z
      .record(userName, bcryptHash, {
        error: ({ code }) =>
          code === 'invalid_key'
            ? 'is no name of a user, which is not empty and has no colon; correct it'
            : 'must be a group of at least one user with the bcrypt hash of the password; correct it',
      })
      .refine((users) => Object.keys(users).length > 0)
      .exactOptional(),
  },
  'must be a group of options; correct it',
)

/**
 * Reads a file in the format of Prometheus' web configuration. Only options for a certificate and for users are known.
 * Rejects with a `ConfigError` with one line per problem. No line has a value, because a password may stand in place of
 * its hash.
 */
export async function readWebConfig(file: string): Promise<WebConfig> {
  const text = await read(file, 'correct serve.webConfigFile')
  const source = parseYaml(text, file)
  const parsed = fileSchema.safeParse(source.value)
  if (!parsed.success) throw new ConfigError(parsed.error.issues.flatMap((issue) => problemLines(issue, source)))
  const { tls_server_config: files, basic_auth_users: users = {} } = parsed.data
  // An editor empties a file before writing it. The page must stay protected meanwhile.
  if (files === undefined && Object.keys(users).length === 0) {
    throw new ConfigError([
      `${file}: protects nothing; give tls_server_config or basic_auth_users, or leave serve.webConfigFile out`,
    ])
  }
  const tls = files === undefined ? null : await readTls(file, files, source)
  return { tls, users: new Map(Object.entries(users)) }
}

async function readTls(
  file: string,
  files: { readonly cert_file: string; readonly key_file: string },
  source: ConfigSource,
): Promise<{ cert: string; key: string }> {
  const readNamed = (option: keyof typeof files) =>
    read(
      resolve(dirname(file), files[option]),
      `correct tls_server_config.${option} at ${source.place(['tls_server_config', option])}`,
    )
  const [cert, key] = await Promise.all([readNamed('cert_file'), readNamed('key_file')])
  try {
    createSecureContext({ cert, key })
  } catch (error) {
    const why = (error as Error).message.replaceAll('\n', ' ')
    const line = `${source.place(['tls_server_config'])}: the certificate and the key cannot be used together: ${why}`
    throw new ConfigError([`${line}; both must be PEM, the key without a passphrase`], { cause: error })
  }
  return { cert, key }
}

async function read(file: string, advice: string): Promise<string> {
  return readFile(file, 'utf8').catch((error: unknown) => {
    throw unreadable(file, error, advice)
  })
}

function problemLines(issue: z.core.$ZodIssue, source: ConfigSource): string[] {
  const { path } = issue
  if (issue.code === 'unrecognized_keys') {
    const known = path.length === 0 ? 'tls_server_config and basic_auth_users' : 'cert_file and key_file'
    return issue.keys.map((key) => {
      const at = [...path, key]
      return `${source.place(at)}: ${at.join('.')} is not an option here, which are ${known}; remove it`
    })
  }
  return [`${source.place(path)}: ${path.length === 0 ? 'the file' : path.join('.')} ${requirement(issue)}`]
}
