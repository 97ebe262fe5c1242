/**
 * How changes that were made on a guardian come into the home node's configuration: a three-way merge, field by field, as a pure function.
 * The base is what a thing was when the guardian took it over, as its first change tells.
 *
 * Invariants
 * 1. What was changed on one side only is as that side has it. What was changed on both to different values is a conflict; none is lost.
 * 2. In force is the later change, by the home node's clock as far as the guardian's is known; with equal times the guardian's.
 * 3. The same changes merged again change nothing and find no conflict that is not there already.
 * 4. A camera or a recording never goes: footage hangs on it. A person decides.
 */
import {
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
  readonly atMs: number
}
/** All that happened to one thing. */
interface Net extends Omit<Thing, "fields"> {
  readonly base: Fields | null
  readonly there: ReadonlyMap<string, Change> | null
  readonly last: Omit<Change, "value">
}

const changesOf = ({ after, atMs, by }: JournalEntry, offsetMs: number): ReadonlyArray<readonly [string, Change]> =>
  Object.entries(after ?? {}).map(([name, value]) => [name, { value, by, atMs: atMs - offsetMs }])

/** Entries in their order, one after the other, as one change of each thing. */
const netOf = (entries: ReadonlyArray<JournalEntry>, offsetMs: number): ReadonlyArray<Net> => {
  const all = new Map<string, Net>()
  for (const entry of entries) {
    const { after, atMs, before, by, cameraId, channelId, id, kind } = entry
    const known = all.get(thingKey(entry))
    const last = { by, atMs: atMs - offsetMs }
    const first = known === undefined ? before : known.base === null ? null : { ...before, ...known.base }
    // What came and went between two looks is nothing.
    if (first === null && after === null) all.delete(thingKey(entry))
    else {
      const there = after === null ? null : new Map([...(known?.there ?? []), ...changesOf(entry, offsetMs)])
      all.set(thingKey(entry), { kind, id, cameraId, channelId, base: first, there, last })
    }
  }
  return [...all.values()]
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
  applied: number
}

const valuesOf = (there: ReadonlyMap<string, Change>): Fields =>
  Object.fromEntries([...there].map(([name, { value }]) => [name, value]))

const isFields = (value: Schema.Json | undefined): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const about = (draft: Draft, { base, cameraId, channelId, id, kind, last, there }: Net): void => {
  const here = draft.things.get(thingKey({ kind, id }))
  const before = draft.open.get(conflictKey({ kind, id, field: wholeThing }))
  const conflict: Conflict = {
    kind,
    id,
    cameraId,
    channelId,
    field: wholeThing,
    base: before === undefined ? base : before.base,
    here: here?.fields ?? null,
    there: there === null ? null : { ...isFields(before?.there) ? before.there : {}, ...valuesOf(there) },
    thereBy: last.by,
    thereMs: last.atMs,
    hereMs: here?.changedMs ?? null,
    inForce: "here",
  }
  draft.conflicts.set(conflictKey(conflict), conflict)
}

const put = (draft: Draft, thing: HomeThing, atMs: number): void => {
  const key = thingKey(thing)
  draft.things.set(key, thing)
  draft.put.set(key, Math.max(draft.put.get(key) ?? thing.changedMs, atMs))
}

/** A thing that was added there has no place here. */
const placeless = ({ things }: Draft, { cameraId, channelId, kind, there }: Net): boolean => {
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
const numbered = ({ things }: Draft, { cameraId, kind }: Net, fields: Fields): Fields => {
  if (kind !== "channel") return fields
  const taken = [...things.values()].flatMap((one) =>
    one.kind === "channel" && one.cameraId === cameraId ? Number(one.fields["number"]) : []
  )
  return taken.includes(Number(fields["number"])) ? { ...fields, number: Math.max(...taken) + 1 } : fields
}

const add = (draft: Draft, net: Net, there: ReadonlyMap<string, Change>): void => {
  const fields = valuesOf(there)
  const unfit = Object.entries(fields).some(([name, value]) => !fits(net.kind, name, value))
  if (unfit || placeless(draft, net)) return about(draft, net)
  const { cameraId, channelId, id, kind, last } = net
  const made = { kind, id, cameraId, channelId, fields: numbered(draft, net, fields), changedMs: last.atMs }
  put(draft, made, last.atMs)
  draft.applied += Object.keys(fields).length
}

const remove = (draft: Draft, net: Net, here: HomeThing): void => {
  const untouched = Object.entries(net.base ?? {}).every(([name, value]) => Equal.equals(here.fields[name], value))
  const hangs = [...draft.things.values()].some((one) =>
    net.kind === "channel" ?
      one.channelId === net.id :
      one.kind === "recording" && one.channelId === net.channelId && one.fields["role"] === here.fields["role"]
  )
  const footage = net.kind === "camera" || net.kind === "recording"
  if (footage || hangs || !untouched) return about(draft, net)
  draft.things.delete(thingKey(net))
  draft.put.delete(thingKey(net))
  draft.removed.set(thingKey(net), here)
  draft.applied += 1
}

/** One field of a thing that is on both sides. */
const change = (draft: Draft, net: Net, field: string, to: Change): void => {
  const { cameraId, channelId, id, kind } = net
  const thing = draft.things.get(thingKey(net))!
  const key = conflictKey({ ...net, field })
  const open = draft.open.get(key)
  const now = thing.fields[field] ?? null
  /** As it was before either side changed it, and as this node had it last by itself. */
  const base = open === undefined ? net.base?.[field] ?? null : open.base
  const here = open !== undefined && Equal.equals(now, open.there) ? open.here : now
  const set = (value: Schema.Json) => {
    if (Equal.equals(now, value)) return
    put(draft, { ...thing, fields: { ...thing.fields, [field]: value } }, to.atMs)
    draft.applied += 1
  }
  const fit = fits(kind, field, to.value)
  const [changedHere, changedThere] = [!Equal.equals(here, base), !Equal.equals(to.value, base)]
  if (fit && (!changedHere || !changedThere || Equal.equals(here, to.value))) {
    set(changedThere ? to.value : here)
    if (open !== undefined) draft.settled.add(key)
    return
  }
  const inForce = fit && to.atMs >= thing.changedMs ? "there" : "here"
  const found = { field, base, here, there: to.value, thereBy: to.by, thereMs: to.atMs }
  const hereMs = Equal.equals(here, now) ? thing.changedMs : open?.hereMs ?? null
  draft.conflicts.set(key, { kind, id, cameraId, channelId, ...found, hereMs, inForce })
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
    applied: 0,
  }
  for (const net of netOf(entries, offsetMs)) {
    const here = draft.things.get(thingKey(net))
    if (net.there === null) {
      if (here !== undefined) remove(draft, net, here)
      else if (open.has(conflictKey({ ...net, field: wholeThing }))) {
        draft.settled.add(conflictKey({ ...net, field: wholeThing }))
      }
    } else if (here !== undefined) {
      for (const [field, to] of net.there) change(draft, net, field, to)
    } else if (net.base === null) add(draft, net, net.there)
    else about(draft, net)
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
