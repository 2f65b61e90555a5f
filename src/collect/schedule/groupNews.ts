import { hourMs } from '../../market/values.js'

/** The latest responses of so many targets show whether a group is silent. */
const watched = 20
/** In smaller groups all may be quiet by chance. */
const minTargets = 10
/** Part of the targets that bring nothing in a silent group. Others may still show what came before the silence. */
const silentShare = 0.85
/** A group that has been silent for longer counts as one of quiet targets. */
const longestSilenceMs = 6 * hourMs

interface Recent<Target> {
  /** True for each target whose last response brought something, the latest one last. */
  readonly brought: Map<Target, boolean>
  silentSinceMs: number | null
}

/**
 * Finds out if a target has become silent alone, or because the whole service shows nothing new, such as a data feed that
 * is stuck. The response itself cannot tell; the others of the group can.
 */
export class GroupNews<Target extends object> {
  readonly #groups = new Map<string, Recent<Target>>()

  /**
   * Takes a response. Returns true if it tells something about its target, and false while nearly all of the group are
   * silent, too.
   *
   * @param wasLively true if the target's responses brought something lately
   */
  tells(
    group: string,
    target: Target,
    { brought, wasLively }: { readonly brought: boolean; readonly wasLively: boolean },
    nowMs: number,
  ): boolean {
    const recent = this.#groups.get(group) ?? { brought: new Map<Target, boolean>(), silentSinceMs: null }
    this.#groups.set(group, recent)
    if (brought || wasLively) {
      recent.brought.delete(target)
      recent.brought.set(target, brought)
      for (const oldest of recent.brought.keys()) if (recent.brought.size > watched) recent.brought.delete(oldest)
      const silent = [...recent.brought.values()].filter((one) => !one).length
      const isSilent = recent.brought.size >= minTargets && silent >= silentShare * recent.brought.size
      recent.silentSinceMs = isSilent ? (recent.silentSinceMs ?? nowMs) : null
    }
    return brought || recent.silentSinceMs === null || nowMs - recent.silentSinceMs > longestSilenceMs
  }
}
