/**
 * From one reader of the log to everybody who follows it on this node. No effects: time is handed in.
 *
 * Invariants
 * 1. A follower is a place in a ring that all share, and what rests in its socket: no queue of its own. It is offered every
 *    event behind its place exactly once, in order.
 * 2. Bounds: the ring holds {@link FanoutOptions.ringEvents} events and {@link FanoutOptions.ringBytes}; of a follower at most
 *    `waitingBytes` and one piece of {@link pieceBytes} (or one event) wait to be sent.
 * 3. Who falls out of the ring, or takes nothing for `stuckMs` while there is something, is cut off as slow.
 * 4. What somebody may see is decided for all who hold the same grants and asked the same at once, by `decide`.
 */
import type { EventBatch, EventCut, EventFilter, EventPlace, EventSink, PlacedEvent } from "#actors/protocol/event.ts"
import type { EpochMs } from "#schema/common.ts"
import { atLeast, eventTypeOf, type StoredEvent } from "#schema/event.ts"
import { decide, type Grant, type UserPrincipal } from "#schema/permission.ts"
import { crc32 } from "node:zlib"

export interface FanoutOptions {
  readonly ringEvents: number
  readonly ringBytes: number
  readonly waitingBytes: number
  readonly stuckMs: number
}

/** Events that are handed to a socket at once while somebody catches up. */
const pieceBytes = 64 * 1024

/** The place behind the event of this id. */
export const placeOf = (id: string, position: number): EventPlace => ({ position, mark: crc32(id).toString(36) })

interface Entry extends PlacedEvent {
  readonly bytes: number
}

/** Everybody who sees the same. */
interface View {
  readonly key: string
  readonly filter: EventFilter
  readonly principal: UserPrincipal
  readonly followers: Set<Follower>
}

export interface Follower {
  readonly sink: EventSink
  readonly filter: EventFilter
  principal: UserPrincipal
  view: View
  place: EventPlace
  /** Served from the ring; before, it catches up from the database. */
  live: boolean
  /** Since when it takes nothing though there is something; epoch milliseconds. */
  stuckSinceMs: EpochMs | null
  gone: boolean
}

/** Grants stay the same objects until what they say changes. */
const grantIds = new WeakMap<Grant, number>()
let grantsSeen = 0
const grantId = (grant: Grant): number => {
  const known = grantIds.get(grant)
  if (known !== undefined) return known
  grantIds.set(grant, ++grantsSeen)
  return grantsSeen
}

const viewKey = (filter: EventFilter, principal: UserPrincipal): string => {
  const types = filter.types === null ? "*" : [...filter.types].toSorted().join(",")
  return `${filter.minimumSeverity} ${types} ${principal.grants.map(grantId).toSorted((a, b) => a - b).join(",")}`
}

const wanted = ({ minimumSeverity, types }: EventFilter, { event }: StoredEvent): boolean =>
  (types === null || types.has(event.type)) && atLeast(event.severity, minimumSeverity)

/** Whether somebody may see an event. Types of another release are shown to nobody: nobody here knows what they need. */
export const maySee = (principal: UserPrincipal, { audience, event, resource }: StoredEvent): boolean => {
  const type = eventTypeOf(event.type)
  if (type === null || (audience !== null && !audience.includes(principal.userId))) return false
  return decide(principal, type.permission, resource).allowed
}

/** The same for a view, whose members are different people. */
const viewSees = ({ filter, principal }: View, { stored }: Entry): boolean => {
  const type = eventTypeOf(stored.event.type)
  return type !== null && wanted(filter, stored) && decide(principal, type.permission, stored.resource).allowed
}

const addressed = ({ stored: { audience } }: PlacedEvent, { principal }: Follower): boolean =>
  audience === null || audience.includes(principal.userId)

const entryOf = (stored: StoredEvent): Entry => ({
  stored,
  place: placeOf(stored.event.id, stored.position),
  bytes: JSON.stringify(stored.event).length,
})

/** Index of the first entry behind a position. */
const firstBehind = (entries: ReadonlyArray<Entry>, position: number): number => {
  let low = 0
  let high = entries.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (entries[middle]!.place.position <= position) low = middle + 1
    else high = middle
  }
  return low
}

/** Events of one page or ring that fit into a piece; at least one. */
const pieceFrom = (entries: ReadonlyArray<Entry>, from: number): ReadonlyArray<Entry> => {
  let bytes = 0
  let to = from
  while (to < entries.length && (to === from || bytes + entries[to]!.bytes <= pieceBytes)) bytes += entries[to++]!.bytes
  return entries.slice(from, to)
}

export class Fanout {
  private readonly options: FanoutOptions
  private readonly views = new Map<string, View>()
  private readonly lagging = new Set<Follower>()
  private ring: Array<Entry> = []
  private ringBytes = 0
  /** Everything behind this is in the ring. */
  private from: number
  private head: EventPlace

  /** `recent`: the newest events, oldest first, without holes; `head`: where the log ends if there are none. */
  constructor(options: FanoutOptions, head: EventPlace, recent: ReadonlyArray<StoredEvent>) {
    this.options = options
    this.ring = recent.slice(1).map(entryOf)
    // What lies before the first of them is not known: it only marks where the ring begins.
    const [first] = recent
    this.from = first?.position ?? head.position
    this.head = this.ring.at(-1)?.place ?? (first === undefined ? head : placeOf(first.event.id, first.position))
    this.ringBytes = this.ring.reduce((sum, { bytes }) => sum + bytes, 0)
    this.trim()
  }

  get newest(): EventPlace {
    return this.head
  }

  get size(): number {
    let followers = 0
    for (const view of this.views.values()) followers += view.followers.size
    return followers
  }

  /** Takes what was read behind {@link newest} and hands it on. */
  push(events: ReadonlyArray<StoredEvent>, nowMs: EpochMs): void {
    const entries = events.filter((one) => one.position > this.head.position).map(entryOf)
    const last = entries.at(-1)
    if (last === undefined) return
    const before = this.head.position
    this.ring.push(...entries)
    for (const { bytes } of entries) this.ringBytes += bytes
    this.head = last.place
    for (const view of this.views.values()) this.handOut(view, entries, before, nowMs)
    this.trim()
  }

  /** Adds somebody who stands at `place` and is not served before {@link join}. */
  add(options: Pick<Follower, "sink" | "filter" | "principal" | "place">): Follower {
    const view = this.viewOf(options.filter, options.principal)
    const follower: Follower = { ...options, view, live: false, stuckSinceMs: null, gone: false }
    view.followers.add(follower)
    return follower
  }

  remove(follower: Follower): void {
    follower.gone = true
    this.lagging.delete(follower)
    this.leave(follower)
  }

  become(follower: Follower, principal: UserPrincipal): void {
    follower.principal = principal
    if (follower.gone || viewKey(follower.filter, principal) === follower.view.key) return
    this.leave(follower)
    follower.view = this.viewOf(follower.filter, principal)
    follower.view.followers.add(follower)
  }

  /** Whether the ring knows this place. */
  holds({ mark, position }: EventPlace): boolean {
    const known = position === this.head.position ?
      this.head :
      this.ring[firstBehind(this.ring, position - 1)]?.place
    return known?.position === position && known.mark === mark
  }

  /** Serves from the ring from now on, if the ring reaches back to where the follower stands. */
  join(follower: Follower, nowMs: EpochMs): boolean {
    if (follower.place.position < this.from) return false
    follower.live = true
    this.pump(follower, nowMs)
    return true
  }

  /** Hands events of a page behind its place to somebody who catches up; at most one piece. */
  offer(follower: Follower, page: ReadonlyArray<StoredEvent>): void {
    const entries = page.filter((one) => one.position > follower.place.position).map(entryOf)
    if (entries.length > 0) this.deliver(follower, pieceFrom(entries, 0))
  }

  hasRoom({ sink }: Follower): boolean {
    return sink.waitingBytes() < this.options.waitingBytes
  }

  /** Serves those who had no room; to be called every so often. */
  sweep(nowMs: EpochMs): void {
    for (const follower of this.lagging) this.pump(follower, nowMs)
  }

  cut(follower: Follower, reason: EventCut): void {
    if (follower.gone) return
    this.remove(follower)
    follower.sink.cut(reason)
  }

  cutAll(reason: EventCut): void {
    for (const view of this.views.values()) for (const follower of view.followers) this.cut(follower, reason)
  }

  private handOut(view: View, entries: ReadonlyArray<Entry>, before: number, nowMs: EpochMs): void {
    const visible = entries.filter((entry) => viewSees(view, entry))
    const personal = visible.some(({ stored }) => stored.audience !== null)
    const shared: EventBatch = { events: visible }
    for (const follower of view.followers) {
      if (!follower.live) continue
      if (follower.place.position !== before || !this.hasRoom(follower)) {
        this.pump(follower, nowMs)
        continue
      }
      const batch = personal ? { events: visible.filter((entry) => addressed(entry, follower)) } : shared
      follower.place = this.head
      if (batch.events.length > 0) follower.sink.deliver(batch)
    }
  }

  /** Everything behind its place, as far as there is room. */
  private pump(follower: Follower, nowMs: EpochMs): void {
    if (follower.place.position < this.from) return this.cut(follower, "slow")
    let at = firstBehind(this.ring, follower.place.position)
    let moved = false
    while (at < this.ring.length && this.hasRoom(follower)) {
      const piece = pieceFrom(this.ring, at)
      this.deliver(follower, piece)
      at += piece.length
      moved = true
    }
    if (follower.gone || at >= this.ring.length) {
      follower.stuckSinceMs = null
      this.lagging.delete(follower)
      return
    }
    this.lagging.add(follower)
    if (moved || follower.stuckSinceMs === null) follower.stuckSinceMs = nowMs
    else if (nowMs - follower.stuckSinceMs >= this.options.stuckMs) this.cut(follower, "slow")
  }

  private deliver(follower: Follower, entries: ReadonlyArray<Entry>): void {
    follower.place = entries.at(-1)!.place
    const events = entries.filter((entry) => viewSees(follower.view, entry) && addressed(entry, follower))
    if (events.length > 0) follower.sink.deliver({ events })
  }

  private viewOf(filter: EventFilter, principal: UserPrincipal): View {
    const key = viewKey(filter, principal)
    const known = this.views.get(key)
    if (known !== undefined) return known
    const view: View = { key, filter, principal, followers: new Set() }
    this.views.set(key, view)
    return view
  }

  private leave(follower: Follower): void {
    follower.view.followers.delete(follower)
    if (follower.view.followers.size === 0) this.views.delete(follower.view.key)
  }

  /** A quarter more than the bound is let grow, so that the array is not moved at each event. */
  private trim(): void {
    const { ringBytes, ringEvents } = this.options
    if (this.ring.length <= ringEvents * 1.25 && this.ringBytes <= ringBytes * 1.25) return
    let gone = 0
    while (gone < this.ring.length && (this.ring.length - gone > ringEvents || this.ringBytes > ringBytes)) {
      this.ringBytes -= this.ring[gone++]!.bytes
    }
    this.from = this.ring[gone - 1]?.place.position ?? this.from
    this.ring.splice(0, gone)
  }
}
