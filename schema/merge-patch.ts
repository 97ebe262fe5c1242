/**
 * JSON merge patches (RFC 7396).
 *
 * Invariants
 * 1. A member named `__proto__` is a member like any other: objects are made from entries, never by assignment.
 * 2. {@link depthOf} does not recurse, so it judges any text that could be parsed; merge what it has judged.
 */

const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** RFC 7396, section 2: `null` removes, objects merge, all else replaces. */
export const mergePatch = (target: unknown, patch: unknown): unknown => {
  if (!isObject(patch)) return patch
  const members = new Map<string, unknown>(isObject(target) ? Object.entries(target) : [])
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) members.delete(name)
    else members.set(name, mergePatch(members.get(name), value))
  }
  return Object.fromEntries(members)
}

/** Levels of objects and arrays in a JSON value: 0 for a number, 1 for `{}`; stops counting beyond `most`. */
export const depthOf = (value: unknown, most: number): number => {
  let level: ReadonlyArray<unknown> = [value]
  for (let depth = 0;; depth++) {
    const below = level.filter((one) => typeof one === "object" && one !== null)
    if (below.length === 0 || depth > most) return depth
    level = below.flatMap((one) => Object.values(one) as ReadonlyArray<unknown>)
  }
}
