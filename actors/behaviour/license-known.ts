/**
 * What this node knows of the licence: read from the database every few seconds, judged from memory; the gate before
 * administration; the latest time that was seen, in PostgreSQL and on this node's disk.
 *
 * Invariants
 * 1. While the database is away the last reading holds; before the first one nothing is restricted.
 * 2. The high-water mark survives a new database (it is on the disk too) and a lost data folder (it is in the database too). Both
 *    would have to be set back.
 * 3. A machine of the cluster that was not seen for {@link hardwareKeptMs} is no machine of it any more.
 */
import { Events } from "#actors/protocol/event.ts"
import { type HardwareFacts, LicenseGate } from "#actors/protocol/license.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import {
  type HardwareMatch,
  type InstalledFacts,
  judge,
  type LicenseFacts,
  matchHardware,
  type TimeSeen,
  timeSeen,
} from "#schema/license-state.ts"
import { LicenseRestricted, type LicenseState } from "#schema/license.ts"
import { Clock, Context, Effect, FileSystem, Layer, Schedule, Schema, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { type KeptLicense, LicenseStore } from "../store/license.ts"
import { chore } from "./chore.ts"
import { makeHardware } from "./license-hardware.ts"
import { openLicense, readVendorKeys, type VendorKeys } from "./license-keys.ts"

export interface LicenseOptions {
  /** File with the vendor's public keys (a JWK set); `null`: no licence can be installed. */
  readonly keys: string | null
  /** Address of the licence server; `null` for none. */
  readonly server: string | null
  readonly dataFolder: string
}

/** How often the database is read: a change on another node is known here within this time. */
const readEvery = "5 seconds"
/** How often the time is noted. */
const noteEvery = "1 minute"
/** The same change that another node tells within this time is the same event. */
const sameChangeMs = 60_000
export const hardwareKeptMs = 30 * 86_400_000

export interface Known {
  readonly kept: KeptLicense
  readonly facts: LicenseFacts
}

const Mark = Schema.fromJsonString(Schema.Struct({ version: Schema.Literal(1), highWaterMs: Schema.Int }))

/** The mark on the disk. */
const makeMark = (dataFolder: string) =>
  Effect.map(FileSystem.FileSystem, (fs) => {
    const path = `${dataFolder}/license-time.json`
    return {
      read: Effect.flatMap(fs.readFileString(path), Schema.decodeEffect(Mark)).pipe(
        Effect.map(({ highWaterMs }) => highWaterMs),
        // Missing or torn: the database's mark stands alone.
        Effect.orElseSucceed(() => 0),
      ),
      write: (highWaterMs: number) =>
        Effect.gen(function*() {
          const text = yield* Schema.encodeEffect(Mark)({ version: 1, highWaterMs })
          yield* fs.writeFileString(`${path}.new`, `${text}\n`, { mode: 0o600 })
          yield* fs.rename(`${path}.new`, path)
        }).pipe(Effect.catch((error) => Effect.logDebug("The latest time cannot be noted", error))),
    }
  })

const best = (licensed: string, nodes: Effect.Success<ReturnType<LicenseStore["hardware"]>>): HardwareMatch => {
  const tried = nodes.map((node) => ({ ...matchHardware(licensed, node.hardwareId), nodeId: node.nodeId }))
  const nobody = { ...matchHardware(licensed, "nj1"), nodeId: null }
  return tried.reduce<HardwareMatch>((first, next) => next.matching > first.matching ? next : first, nobody)
}

const make = Effect.fnUntraced(function*(options: LicenseOptions) {
  const store = yield* LicenseStore
  const mark = yield* makeMark(options.dataFolder)
  const fs = yield* FileSystem.FileSystem
  const { nodeId } = yield* NodeIdentity
  const events = yield* Events
  const readHardware = yield* makeHardware
  const readKeys = Effect.provideService(readVendorKeys(options.keys), FileSystem.FileSystem, fs)
  const alone = yield* Semaphore.make(1)
  let keys: VendorKeys = yield* readKeys
  let hardware = yield* readHardware
  let known: Known | null = null
  let told: LicenseState | null = null
  let time: TimeSeen = { highWaterMs: yield* mark.read, jumpSinceSteadyMs: null }

  const installedFacts = Effect.fnUntraced(function*(kept: KeptLicense) {
    if (kept.installed === null) return null
    const { confirmedAtMs, mode, text } = kept.installed
    const nodes = yield* store.hardware((yield* Clock.currentTimeMillis) - hardwareKeptMs)
    return yield* openLicense(text, keys).pipe(
      Effect.map((claims): InstalledFacts => ({
        genuine: true,
        claims,
        mode,
        hardware: claims.hardwareId === null ? null : best(claims.hardwareId, nodes),
        vendor: kept.vendor,
        confirmedAtMs,
      })),
      Effect.catch((error) => Effect.succeed<InstalledFacts>({ genuine: false, detail: error.message })),
    )
  })

  /** Tells that the state is another one; every node notices, and what they tell is one event. */
  const tell = Effect.fnUntraced(function*({ facts, kept }: Known) {
    const nowMs = yield* Clock.currentTimeMillis
    const { reason, state } = judge(facts, nowMs)
    const before = told
    told = state
    if (before === null || before === state) return
    const since = kept.installed?.activatedAtMs ?? 0
    yield* events.publish({
      type: "license.state.changed",
      id: `license:${before}:${state}:${since}:${Math.floor(nowMs / sameChangeMs)}`,
      subject: state,
      data: { state, before, reason },
      resource: [],
    })
  })

  /** Reads and judges anew. */
  const read = Effect.gen(function*() {
    const nowMs = yield* Clock.currentTimeMillis
    const kept = yield* store.read(nowMs)
    time = { ...time, highWaterMs: Math.max(time.highWaterMs, kept.highWaterMs) }
    const facts: LicenseFacts = {
      installed: yield* installedFacts(kept),
      keyRegistered: kept.key !== null,
      released: kept.released,
      highWaterMs: time.highWaterMs,
    }
    known = { kept, facts }
    yield* tell(known)
    return known
  })

  const note = Effect.gen(function*() {
    const nowMs = yield* Clock.currentTimeMillis
    const before = time
    time = timeSeen(time, nowMs, Number((yield* Clock.monotonicTimeNanos) / 1_000_000n))
    yield* mark.write(time.highWaterMs)
    if (known !== null) yield* store.advanceTime(time.highWaterMs)
    if (time.highWaterMs !== before.highWaterMs && known !== null) {
      known = { ...known, facts: { ...known.facts, highWaterMs: time.highWaterMs } }
    }
  })

  const seeHardware = Effect.gen(function*() {
    hardware = yield* readHardware
    yield* store.seeHardware(nodeId, hardware.hardwareId, yield* Clock.currentTimeMillis)
    return hardware
  })

  return {
    store,
    /** One change of the licence at a time on this node. */
    alone: alone.withPermits(1),
    read,
    note,
    /** What was read last; `null` before the first time. */
    last: () => known,
    keys: () => keys,
    readKeys: Effect.tap(readKeys, (fresh) =>
      Effect.sync(() => {
        keys = fresh
      })),
    hardware: () => hardware,
    seeHardware,
    /** The vendor's signed word that the latest time seen was wrong. */
    resetTime: Effect.fnUntraced(function*(toMs: number) {
      time = { highWaterMs: toMs, jumpSinceSteadyMs: null }
      yield* store.resetTime(toMs)
      yield* mark.write(toMs)
    }),
  }
})

export class LicenseKnown
  extends Context.Service<LicenseKnown, Effect.Success<ReturnType<typeof make>>>()("nightjar/actors/LicenseKnown")
{}

const gate = (known: LicenseKnown["Service"]): typeof LicenseGate.Service => {
  const judged = Effect.map(Clock.currentTimeMillis, (nowMs) => {
    const last = known.last()
    if (last === null) return null
    const { facts } = last
    const claims = facts.installed?.genuine === true ? facts.installed.claims : null
    return { ...judge(facts, nowMs), claims }
  })
  const mayAdd = Effect.fnUntraced(function*(what: string) {
    const now = yield* judged
    if (now?.restricted !== true) return
    return yield* new LicenseRestricted({
      state: now.state,
      reason: `No new ${what} while the licence is ${now.state}: ${now.reason}. What runs goes on`,
      limit: null,
    })
  })
  return {
    mayAdd,
    mayAddChannels: Effect.fnUntraced(function*(inUse, adding) {
      yield* mayAdd("cameras")
      const now = yield* judged
      const limit = now?.claims?.channels ?? null
      if (now === null || limit === null || inUse + adding <= limit) return
      return yield* new LicenseRestricted({
        state: now.state,
        reason: `The licence covers ${limit} channels; ${inUse} are there, ${adding} more are asked for`,
        limit,
      })
    }),
    maySignIn: Effect.fnUntraced(function*(inUse) {
      const now = yield* judged
      const limit = now?.claims?.sessions ?? null
      if (now === null || limit === null || (yield* inUse) < limit) return
      return yield* new LicenseRestricted({
        state: now.state,
        reason: `The licence covers ${limit} people at once, and as many are signed in`,
        limit,
      })
    }),
  }
}

/** Stands below everything that asks the gate. */
export const layer = (options: LicenseOptions): Layer.Layer<
  LicenseKnown,
  never,
  SqlClient.SqlClient | NodeIdentity | HardwareFacts | Events | FileSystem.FileSystem
> =>
  Layer.effectContext(Effect.gen(function*() {
    const known = yield* make(options)
    yield* chore("Reading the hardware id", known.seeHardware)
    yield* chore("Reading the licence", known.read)
    const every = (what: string, work: Effect.Effect<unknown, unknown>, pause: "5 seconds" | "1 minute" | "1 hour") =>
      Effect.forkScoped(Effect.repeat(chore(what, work), Schedule.spaced(pause)))
    yield* every("Reading the licence", known.read, readEvery)
    yield* every("Noting the latest time", known.note, noteEvery)
    yield* every("Reading the hardware id", known.seeHardware, "1 hour")
    return Context.make(LicenseKnown, known).pipe(Context.add(LicenseGate, gate(known)))
  }))
