/**
 * When a state is told: things that come and go must not become a flood. No effects: time is handed in.
 *
 * Invariants
 * 1. A state is told once it differs from the last one told and has held for the waiting time: {@link settleMs}, doubled by each
 *    telling of the last ten minutes, up to {@link longestMs}. So one thing tells at most some ten times in ten minutes and then
 *    once in five.
 * 2. What changes {@link restlessChanges} times without ever holding is told as restless, under the same waiting time between
 *    tellings.
 * 3. Each telling says how often the state has changed since the one before, and since when it is what it is.
 */
import type { EpochMs } from "#schema/common.ts"

/** Reconnecting after a lost packet takes less; a person does not mind the wait. */
const settleMs = 5_000
const longestMs = 300_000
const rememberMs = 600_000
const restlessChanges = 6

export interface Telling<S extends string> {
  readonly id: string
  readonly state: S
  readonly sinceMs: EpochMs
  readonly reason: string
  readonly changes: number
}

interface Track<S extends string> {
  state: S
  sinceMs: EpochMs
  reason: string
  told: S | null
  changes: number
  tellings: Array<EpochMs>
}

export class StateTeller<S extends string> {
  private readonly tracks = new Map<string, Track<S>>()
  private readonly restless: S | null
  private readonly known: ReadonlyMap<string, S>

  /** `restless`: the state of what comes and goes; `known`: what was last told before this process. */
  constructor(restless: S | null, known: ReadonlyMap<string, S> = new Map()) {
    this.restless = restless
    this.known = known
  }

  see(id: string, state: S, reason: string, nowMs: EpochMs): void {
    const track = this.tracks.get(id)
    if (track === undefined) {
      const told = this.known.get(id) ?? null
      this.tracks.set(id, { state, sinceMs: nowMs, reason, told, changes: told === state ? 0 : 1, tellings: [] })
      return
    }
    track.reason = reason
    if (track.state === state) return
    track.state = state
    track.sinceMs = nowMs
    track.changes += 1
  }

  /** Nobody is to hear of it until it is seen again; then it is new. */
  keepOnly(ids: ReadonlySet<string>): void {
    for (const id of this.tracks.keys()) if (!ids.has(id)) this.tracks.delete(id)
  }

  /** What is to be told now. */
  due(nowMs: EpochMs): ReadonlyArray<Telling<S>> {
    return Array.from(this.tracks, ([id, track]) => this.dueOf(id, track, nowMs)).filter((one) => one !== null)
  }

  /** The last state told, by id. */
  told(): ReadonlyMap<string, S> {
    return new Map(Array.from(this.tracks, ([id, { told }]) => [id, told] as const).filter(hasTold))
  }

  private dueOf(id: string, track: Track<S>, nowMs: EpochMs): Telling<S> | null {
    track.tellings = track.tellings.filter((at) => at > nowMs - rememberMs)
    const waitMs = Math.min(longestMs, settleMs * 2 ** track.tellings.length)
    const held = nowMs - track.sinceMs >= waitMs
    if (held && track.state === track.told) track.changes = 0
    if (held && track.state !== track.told) return this.tell(id, track, track.state, nowMs)
    const quiet = nowMs - (track.tellings.at(-1) ?? Number.NEGATIVE_INFINITY) >= waitMs
    if (this.restless === null || track.changes < restlessChanges || track.told === this.restless || !quiet) return null
    return this.tell(id, { ...track, reason: "it comes and goes", sinceMs: nowMs }, this.restless, nowMs, track)
  }

  private tell(id: string, seen: Track<S>, state: S, nowMs: EpochMs, track = seen): Telling<S> {
    const { changes, reason, sinceMs } = seen
    track.told = state
    track.changes = 0
    track.tellings.push(nowMs)
    return { id, state, sinceMs, reason, changes }
  }
}

const hasTold = <S>(entry: readonly [string, S | null]): entry is readonly [string, S] => entry[1] !== null
