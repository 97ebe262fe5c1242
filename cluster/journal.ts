/**
 * How changes that were made on a guardian come into the home node's configuration: a three-way merge, field by field, as a pure function.
 * Each change tells its base: what the field was before. One after the other, so that a journal read in pieces is merged as if read whole.
 *
 * Invariants
 * 1. What was changed on one side only is as that side has it. What was changed on both to different values is a conflict; none is lost.
 * 2. In force is the later change, by the home node's clock as far as the guardian's is known; with equal times the guardian's.
 * 3. The same changes merged again change nothing and find no conflict that is not there already.
 * 4. A camera or a recording never goes: footage hangs on it. A person decides.
 */
import {
  asFields,
  type ConflictSide,
  type Fields,
  fits,
  type JournalEntry,
  type Thing,
  thingKey,
  wholeThing,
} from "#schema/federation-journal.ts"
import { Equal, type Schema } from "effect"

/** A thing of the home node, and when its row last changed. */
export interface HomeThing extends Thing {
  readonly changedMs: number
}

export interface Conflict extends Omit<Thing, "fields"> {
  /** Or {@link wholeThing}. */
  readonly field: string
  readonly base: Schema.Json
  readonly here: Schema.Json
  readonly there: Schema.Json
  readonly thereBy: string
  /** By the home node's clock. */
  readonly thereMs: number
  readonly hereMs: number | null
  readonly inForce: ConflictSide
}
export const conflictKey = (of: Pick<Conflict, "kind" | "id" | "field">): string => `${thingKey(of)}/${of.field}`

export interface Merged {
  /** Whole, as they should be written. */
  readonly put: ReadonlyArray<HomeThing>
  /** Children first. */
  readonly remove: ReadonlyArray<Thing>
  /** New, or open ones that are otherwise now. */
  readonly conflicts: ReadonlyArray<Conflict>
  /** Keys of open conflicts about which both sides agree now. */
  readonly settled: ReadonlyArray<string>
  /** Fields that are as the guardian had them now, and were not before. */
  readonly applied: number
}

interface Change {
  readonly value: Schema.Json
  readonly by: string
  /** By the home node's clock. */
  readonly atMs: number
}
/** What happened to one thing. */
interface Step extends Omit<Thing, "fields"> {
  readonly base: Fields | null
  readonly there: ReadonlyMap<string, Change> | null
  readonly last: Omit<Change, "value">
}

const stepOf = (entry: JournalEntry, offsetMs: number): Step => {
  const { after, before, by, cameraId, channelId, id, kind } = entry
  const last = { by, atMs: entry.atMs - offsetMs }
  const there = after === null ?
    null :
    new Map(Object.entries(after).map(([name, value]) => [name, { value, ...last }]))
  return { kind, id, cameraId, channelId, base: before, there, last }
}

/** What has been decided so far, on top of what the home node has. */
interface Draft {
  readonly things: Map<string, HomeThing>
  /** What is to be written, and the time of its newest change. */
  readonly put: Map<string, number>
  readonly removed: Map<string, Thing>
  readonly conflicts: Map<string, Conflict>
  readonly settled: Set<string>
  readonly open: ReadonlyMap<string, Conflict>
  /** Fields that both sides changed alike: what follows there is still told from before both. */
  readonly alike: Map<string, Conflict>
  applied: number
}

const openOf = (draft: Draft, key: string): Conflict | undefined =>
  draft.conflicts.get(key) ?? draft.alike.get(key) ?? (draft.settled.has(key) ? undefined : draft.open.get(key))
const disagree = (draft: Draft, conflict: Conflict): void => {
  draft.conflicts.set(conflictKey(conflict), conflict)
  draft.settled.delete(conflictKey(conflict))
}
const agree = (draft: Draft, key: string): void => {
  draft.conflicts.delete(key)
  draft.alike.delete(key)
  if (draft.open.has(key)) draft.settled.add(key)
}

const valuesOf = (there: ReadonlyMap<string, Change>): Fields =>
  Object.fromEntries([...there].map(([name, { value }]) => [name, value]))

const about = (draft: Draft, { base, cameraId, channelId, id, kind, last, there }: Step): void => {
  const here = draft.things.get(thingKey({ kind, id }))
  const before = openOf(draft, conflictKey({ kind, id, field: wholeThing }))
  const conflict: Conflict = {
    kind,
    id,
    cameraId,
    channelId,
    field: wholeThing,
    base: before === undefined ? base : before.base,
    here: here?.fields ?? null,
    there: there === null ? null : { ...asFields(before?.there), ...valuesOf(there) },
    thereBy: last.by,
    thereMs: last.atMs,
    hereMs: here?.changedMs ?? null,
    inForce: "here",
  }
  disagree(draft, conflict)
}

const put = (draft: Draft, thing: HomeThing, atMs: number): void => {
  const key = thingKey(thing)
  draft.things.set(key, thing)
  draft.put.set(key, Math.max(draft.put.get(key) ?? thing.changedMs, atMs))
}

/** A thing that was added there has no place here. */
const placeless = ({ things }: Draft, { cameraId, channelId, kind, there }: Step): boolean => {
  const all = [...things.values()]
  const role = there?.get("role")?.value ?? null
  const stream = all.some((one) => one.kind === "stream" && one.channelId === channelId && one.fields["role"] === role)
  if (kind === "camera" || !things.has(`camera/${cameraId}`)) return true
  if (kind === "channel") return false
  if (kind === "stream") return stream || !things.has(`channel/${channelId}`)
  const taken = all.some((one) =>
    one.kind === "recording" && one.channelId === channelId && one.fields["role"] === role
  )
  return taken || !stream
}

/** The next number of a channel, where the other node gave one that another channel has by now. */
const numbered = ({ things }: Draft, { cameraId, kind }: Step, fields: Fields): Fields => {
  if (kind !== "channel") return fields
  const taken = [...things.values()].flatMap((one) =>
    one.kind === "channel" && one.cameraId === cameraId ? Number(one.fields["number"]) : []
  )
  return taken.includes(Number(fields["number"])) ? { ...fields, number: Math.max(...taken) + 1 } : fields
}

const add = (draft: Draft, step: Step, there: ReadonlyMap<string, Change>): void => {
  const fields = valuesOf(there)
  const unfit = Object.entries(fields).some(([name, value]) => !fits(step.kind, name, value))
  if (unfit || placeless(draft, step)) return about(draft, step)
  const { cameraId, channelId, id, kind, last } = step
  const made = { kind, id, cameraId, channelId, fields: numbered(draft, step, fields), changedMs: last.atMs }
  put(draft, made, last.atMs)
  draft.applied += Object.keys(fields).length
}

const remove = (draft: Draft, step: Step, here: HomeThing): void => {
  const untouched = Object.entries(step.base ?? {}).every(([name, value]) => Equal.equals(here.fields[name], value))
  const hangs = [...draft.things.values()].some((one) =>
    step.kind === "channel" ?
      one.channelId === step.id :
      one.kind === "recording" && one.channelId === step.channelId && one.fields["role"] === here.fields["role"]
  )
  const footage = step.kind === "camera" || step.kind === "recording"
  if (footage || hangs || !untouched) return about(draft, step)
  draft.things.delete(thingKey(step))
  draft.put.delete(thingKey(step))
  draft.removed.set(thingKey(step), here)
  draft.applied += 1
}

/** One field of a thing that is on both sides. */
const change = (draft: Draft, step: Step, field: string, to: Change): void => {
  const { cameraId, channelId, id, kind } = step
  const thing = draft.things.get(thingKey(step))!
  const key = conflictKey({ ...step, field })
  const open = openOf(draft, key)
  const now = thing.fields[field] ?? null
  /** As it was before either side changed it, and as this node had it last by itself. */
  const base = open === undefined ? step.base?.[field] ?? null : open.base
  const here = open !== undefined && Equal.equals(now, open.there) ? open.here : now
  const set = (value: Schema.Json) => {
    if (Equal.equals(now, value)) return
    put(draft, { ...thing, fields: { ...thing.fields, [field]: value } }, to.atMs)
    draft.applied += 1
  }
  const fit = fits(kind, field, to.value)
  const [changedHere, changedThere] = [!Equal.equals(here, base), !Equal.equals(to.value, base)]
  const hereMs = Equal.equals(here, now) ? thing.changedMs : open?.hereMs ?? 0
  const inForce = fit && to.atMs >= hereMs ? "there" : "here"
  const sides = { field, base, here, there: to.value, thereBy: to.by, thereMs: to.atMs, hereMs, inForce } as const
  const found: Conflict = { kind, id, cameraId, channelId, ...sides }
  if (fit && (!changedHere || !changedThere || Equal.equals(here, to.value))) {
    set(changedThere ? to.value : here)
    agree(draft, key)
    if (changedHere && changedThere) draft.alike.set(key, found)
    return
  }
  disagree(draft, found)
  set(inForce === "there" ? to.value : here)
}

/**
 * @param open Conflicts that nobody has decided yet, by {@link conflictKey}.
 * @param offsetMs The guardian's clock minus the home node's.
 */
export const mergeJournal = (
  home: ReadonlyArray<HomeThing>,
  entries: ReadonlyArray<JournalEntry>,
  open: ReadonlyMap<string, Conflict>,
  offsetMs: number,
): Merged => {
  const draft: Draft = {
    things: new Map(home.map((one) => [thingKey(one), one])),
    put: new Map(),
    removed: new Map(),
    conflicts: new Map(),
    settled: new Set(),
    open,
    alike: new Map(),
    applied: 0,
  }
  for (const entry of entries) {
    const step = stepOf(entry, offsetMs)
    const here = draft.things.get(thingKey(step))
    if (step.there === null) {
      if (here !== undefined) remove(draft, step, here)
      else agree(draft, conflictKey({ ...step, field: wholeThing }))
    } else if (here !== undefined) {
      for (const [field, to] of step.there) change(draft, step, field, to)
    } else if (step.base === null) add(draft, step, step.there)
    else about(draft, step)
  }
  return {
    put: [...draft.put].map(([key, changedMs]) => ({ ...draft.things.get(key)!, changedMs })),
    remove: [...draft.removed.values()],
    conflicts: [...draft.conflicts.values()],
    settled: [...draft.settled],
    applied: draft.applied,
  }
}

/** A configuration with these changes made to it, as whoever made them has it. */
export const withJournal = (
  things: ReadonlyArray<Thing>,
  entries: ReadonlyArray<JournalEntry>,
): ReadonlyArray<Thing> => {
  const all = new Map(things.map((one) => [thingKey(one), one]))
  for (const { after, before, cameraId, channelId, id, kind } of entries) {
    const key = thingKey({ kind, id })
    const known = all.get(key)
    if (after === null) all.delete(key)
    else if (known !== undefined) all.set(key, { ...known, fields: { ...known.fields, ...after } })
    else if (before === null) all.set(key, { kind, id, cameraId, channelId, fields: after })
  }
  return [...all.values()]
}
