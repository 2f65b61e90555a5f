import { printable } from '../runtime/printable.js'
import type { Certificate, CertifiedSeries, CertifiedTable } from '../files/archive/certify.js'

/** The report as Markdown, to read and to attach. */
export function certificateText({ from, to, tables }: Certificate): string {
  const head = [`# What was recorded from ${from} to ${to} (not included), UTC`, '']
  return printable(`${[...head, ...tables.flatMap(tableLines)].join('\n')}\n`)
}

function tableLines({ table, rows, days, missing, series }: CertifiedTable): string[] {
  const digests = days.flatMap((one) =>
    Object.entries(one.digests).map(
      ([category, digest]) => `| ${one.day} | ${category} | ${digest.rows} | ${digest.sha256} |`,
    ),
  )
  return [
    `## market.${table}`,
    '',
    `${rows} rows in ${days.length} days${missing.length === 0 ? '' : `; not in the archive: ${missing.join(', ')}`}.`,
    '',
    ...(series.length === 0
      ? []
      : ['| series | complete | gaps | revisions | restatements |', '|---|---|---|---|---|']),
    ...series.map(seriesLine),
    '',
    ...series.flatMap(details),
    '| day | category | rows | SHA-256 of the rows |',
    '|---|---|---|---|',
    ...digests,
    '',
  ]
}

function nameOf({ category, symbol, type, interval }: CertifiedSeries): string {
  return [category, symbol, type, interval].filter((part) => part !== '').join(' ')
}

function seriesLine(series: CertifiedSeries): string {
  const { completeness, gaps, revisions, restatements } = series
  return `| ${nameOf(series)} | ${completeness === null ? 'not claimed' : percent(completeness)} | ${gaps.length} | ${revisions.length} | ${restatements.length} |`
}

function details(series: CertifiedSeries): string[] {
  const days = Object.entries(series.incompleteDays).map(([day, share]) => `${day} ${percent(share)}`)
  const lines = [
    ...(days.length === 0 ? [] : [`- Incomplete: ${days.join(', ')}`]),
    ...series.gaps.map(({ from, to, reason, state }) => `- Gap ${from} to ${to}, ${state}: ${reason}`),
    ...series.revisions.map(
      ({ openTime, revisedAt, old, new: replaced }) =>
        `- Candle of ${openTime} revised ${revisedAt}: ${old.join(' ')} became ${replaced.join(' ')}`,
    ),
    ...series.restatements.map(
      ({ from, to, numerator, denominator, detectedAt }) =>
        `- Restated from ${from} to ${to}, noticed ${detectedAt}: prices times ${numerator}/${denominator}`,
    ),
  ]
  return lines.length === 0 ? [] : [`${nameOf(series)}:`, '', ...lines, '']
}

/** Rounded down: what is not complete does not look it. */
function percent(share: number): string {
  return `${(Math.floor(share * 10_000) / 100).toFixed(2)} %`
}
