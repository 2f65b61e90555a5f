import type { ComponentChildren } from 'preact'

export interface PanelProps {
  readonly id: string
  readonly title: string
  /** Beside the title: a figure or a control. */
  readonly aside?: ComponentChildren
  readonly children: ComponentChildren
}

/** A part of the page with its heading. */
export function Panel({ id, title, aside, children }: PanelProps) {
  return (
    <section id={id} class="panel" aria-labelledby={`${id}-title`}>
      <div class="panel-head">
        <h2 id={`${id}-title`}>{title}</h2>
        {aside}
      </div>
      {children}
    </section>
  )
}
