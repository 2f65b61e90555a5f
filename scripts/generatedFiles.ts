import { format, resolveConfig } from 'prettier'
import { apiPage } from './apiDocs.js'
import { reliabilityPage } from './boundsDocs.js'
import { cliPage } from './cliDocs.js'
import { configJsonSchema, configurationPage, exampleFile } from './configDocs.js'
import { metricsPage } from './metricsDocs.js'

/** Every generated file by its path in the repository, with what should be in it. */
export async function generatedFiles(): Promise<ReadonlyMap<string, string>> {
  const texts = {
    'config/recorder.schema.json': JSON.stringify(configJsonSchema(), null, 2),
    'config/recorder.example.yaml': exampleFile(),
    'docs/configuration.md': configurationPage(),
    'docs/cli.md': await cliPage(),
    'docs/api.md': apiPage(),
    'docs/metrics.md': await metricsPage(),
    'docs/reliability.md': reliabilityPage(),
  }
  const formatted = Object.entries(texts).map(async ([path, text]): Promise<[string, string]> => {
    const options = await resolveConfig(path)
    return [path, await format(text, { ...options, filepath: path })]
  })
  return new Map(await Promise.all(formatted))
}
