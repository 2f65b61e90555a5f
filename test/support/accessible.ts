import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { expect } from 'vitest'

/** Expects that axe complains of nothing, and that the page is not wider than the screen. */
export async function expectAccessible(page: Page, what: string): Promise<void> {
  await page.addScriptTag({ content: axe.source })
  const violations = await page.evaluate<string[]>(`axe.run().then(({ violations }) =>
    violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`)
  expect(violations, what).toEqual([])
  const width = await page.evaluate<number>('document.documentElement.scrollWidth - innerWidth')
  expect(width, `${what} is wider than the screen`).toBeLessThanOrEqual(0)
}
