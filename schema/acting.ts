/**
 * On whose behalf something is done, for what keeps a history of its own: known where a request is served, and told to the entity that
 * carries it out, on whichever node that is.
 */
import { Context } from "effect"

/** Name of the user; empty: a program does it by itself. */
export const Acting = Context.Reference<string>("nightjar/Acting", { defaultValue: () => "" })

/** In messages to entities; percent-encoded. */
export const actingHeader = "nightjar-acting"

/** What {@link actingHeader} tells; a text that is none tells nobody. */
export const actingOf = (header: string | undefined): string => {
  try {
    return decodeURIComponent(header ?? "")
  } catch {
    return ""
  }
}
