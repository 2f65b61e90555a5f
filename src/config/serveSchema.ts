import { z } from 'zod'
import { whole } from './wholeNumber.js'

export const serve = z
  .strictObject({
    enabled: z.boolean().default(true).describe('Whether metrics, health and the status page are served.'),
    host: z.string().min(1).default('127.0.0.1').describe('Address to listen on.'),
    port: whole(0, 65_535).default(8080).describe('Port to listen on; 0 takes any free one.'),
    allowedHosts: z
      .array(
        z.string().regex(/^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/, {
          error: 'must be a host name such as recorder.example.org',
        }),
      )
      .default(() => [])
      .describe(
        'Host names that the server may be called by, besides addresses and localhost; others are refused. By default any, unless host is an address of this machine only.',
      ),
    webConfigFile: z
      .string()
      .min(1)
      .exactOptional()
      .describe(
        "File in the format of Prometheus' web configuration, with a certificate and users: see security.md. Without it, HTTP for everybody.",
      ),
    metricsByInstrument: z
      .boolean()
      .default(false)
      .describe('Whether /metrics also says of each instrument when it was last stored: thousands of series.'),
  })
  .prefault({})
  .describe('The HTTP server for metrics, health and the status page.')
