import fc from 'fast-check'

// A change is judged by the same properties' examples every time; by hand, every run looks for new ones.
if (process.env['CI'] !== undefined) fc.configureGlobal({ seed: 20_260_101 })
