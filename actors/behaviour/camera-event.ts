/**
 * Listening to cameras: what they notice by themselves becomes events. One fiber a camera that this node serves, on a connection of
 * its own beside that of the entity `CameraDevice`, because a pull waits on the device for something to happen.
 *
 * Invariants
 * 1. A camera is listened to on the node that serves it, while it is switched on. It needs no database once it listens: what it tells
 *    goes the way of all events.
 * 2. What was told to be so is remembered on disk, so that a restart of the camera, of the subscription or of the node tells nothing
 *    twice and ends what ended meanwhile.
 * 3. A camera that floods costs others nothing: a pull brings at most 64 notices of at most 1 MiB, {@link pullEvery} apart; what is
 *    told of it is bounded by {@link CameraNotices}; what was left out is told with its count, at most once in {@link missedEvery}.
 * 4. One that cannot be listened to is tried again after {@link retryFirst}, doubled up to {@link retryLast}; one that refuses the
 *    credentials after {@link refusedWait}, because cameras lock accounts; one that tells of nothing after {@link silentWait}.
 */
import { Events } from "#actors/protocol/event.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { Ownership } from "#cluster/ownership.ts"
import { type Device, DeviceDrivers, type DeviceSubscription } from "#media/device.ts"
import type { DeviceNotice } from "#schema/camera-event.ts"
import type { Camera } from "#schema/camera.ts"
import type { CameraId, ChannelId } from "#schema/common.ts"
import type { EventDraft } from "#schema/event.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Duration, Effect, FiberMap, FileSystem, Layer, Schedule, Schema, Semaphore, Stream } from "effect"
import { doorOf, requestTimeoutMs } from "./camera-connect.ts"
import { CameraNotices, type NoticeTelling } from "./camera-notice.ts"
import { StateTeller } from "./event-told.ts"

/** A pull waits so long for something to happen. */
const pullWaitMs = 20_000
/** Pulls of a camera that always has something begin so far apart at least. */
const pullEvery = Duration.millis(250)
/** Those of one that does not wait and has nothing. */
const emptyEvery = Duration.seconds(2)
/** A subscription lasts two minutes. */
const renewEveryMs = 40_000
const retryFirst = Duration.seconds(1)
const retryLast = Duration.minutes(1)
const refusedWait = Duration.minutes(5)
const silentWait = Duration.hours(1)
/** Cameras that are connected to at once; each costs some six requests. */
const connections = 16
const missedEvery = Duration.seconds(60)
const lookEvery = Duration.seconds(1)
/** A camera that was switched, moved or changed is noticed within this. */
const roundEvery = Duration.seconds(5)

export interface CameraEventOptions {
  /** A file that keeps what was last told. */
  readonly toldPath: string
}

const Told = Schema.fromJsonString(
  Schema.Record(Schema.String, Schema.Struct({ on: Schema.Array(Schema.String), lost: Schema.Boolean })),
)
const decodeTold = Schema.decodeUnknownEffect(Told)
type Told = typeof Told.Type

type Connection = "connected" | "lost"

/** A camera that is listened to. */
interface Listened {
  readonly notices: CameraNotices
  /** As it was read when its fiber began; null: not yet. */
  camera: Camera | null
  /** Channels by the tokens of their video sources. */
  channels: ReadonlyMap<string, ChannelId>
  offsetMs: number
  missed: number
  missedSinceMs: number | null
}

const types = {
  motion: ["motion.started", "motion.ended"],
  tamper: ["tamper.started", "tamper.ended"],
  input: ["input.activated", "input.deactivated"],
  line: ["line.crossed", "line.crossed"],
} as const satisfies Record<DeviceNotice["kind"], readonly [EventDraft["type"], EventDraft["type"]]>

const channelOf = ({ camera, channels }: Listened, { source }: DeviceNotice): ChannelId | null =>
  camera?.channels.length === 1 ? camera.channels[0]!.id : source === null ? null : channels.get(source) ?? null

const resourceOf = (cameraId: CameraId, channelId: ChannelId | null): EventDraft["resource"] => [
  ...(channelId === null ? [] : [{ kind: "channel", id: channelId } as const]),
  { kind: "camera", id: cameraId },
]

const draftOf = (id: CameraId, listened: Listened, { active, notice }: NoticeTelling): EventDraft => {
  const channelId = channelOf(listened, notice)
  const [begins, ends] = types[notice.kind]
  return {
    type: active === false ? ends : begins,
    subject: channelId ?? id,
    resource: resourceOf(id, channelId),
    data: {
      name: listened.camera?.name ?? "",
      cameraId: id,
      channelId,
      topic: notice.topic,
      source: notice.source,
      deviceTime: notice.deviceTimeMs === null ? null : new Date(notice.deviceTimeMs).toISOString(),
      clockOffsetMs: listened.offsetMs,
    },
  }
}

/** Which channel each video source of the device is, and each configuration of one: by the addresses of its streams. */
const channelsBySource = Effect.fnUntraced(function*(camera: Camera, device: Device) {
  const channels = new Map<string, ChannelId>()
  if (camera.channels.length < 2) return channels
  for (const { streams, videoSourceToken } of yield* device.channels) {
    const urls = new Set(streams.map(({ sourceUrl }) => sourceUrl))
    const own = camera.channels.find((channel) => channel.streams.some(({ sourceUrl }) => urls.has(sourceUrl)))
    if (own !== undefined) channels.set(videoSourceToken, own.id)
  }
  const configured = yield* Effect.catchTag(
    device.config.videoSources,
    ["OnvifOperationUnsupported", "CameraRefused"],
    () => Effect.succeed([]),
  )
  for (const { sourceToken, token } of configured) {
    const own = channels.get(sourceToken)
    if (own !== undefined && !channels.has(token)) channels.set(token, own)
  }
  return channels
})

/** Pulls until something fails. */
const pulling = Effect.fnUntraced(
  function*(
    { pull, renew }: DeviceSubscription,
    heard: (notices: ReadonlyArray<DeviceNotice>, leftOut: number) => Effect.Effect<void>,
  ) {
    let renewAtMs = (yield* Clock.currentTimeMillis) + renewEveryMs
    while (true) {
      const startMs = yield* Clock.currentTimeMillis
      const { leftOut, notices } = yield* pull(pullWaitMs)
      yield* heard(notices, leftOut)
      const nowMs = yield* Clock.currentTimeMillis
      if (nowMs >= renewAtMs) {
        // A device may count each pull as a renewal and know no other.
        yield* Effect.catchTag(renew, ["OnvifOperationUnsupported", "CameraRefused"], () => Effect.void)
        renewAtMs = nowMs + renewEveryMs
      }
      const least = Duration.toMillis(notices.length === 0 ? emptyEvery : pullEvery)
      if (nowMs - startMs < least) yield* Effect.sleep(least - (nowMs - startMs))
    }
  },
)

const makeListening = Effect.fnUntraced(function*(known: Told) {
  const [store, vault, drivers, events] = yield* Effect.all([CameraStore, Vault, DeviceDrivers, Events])
  const connecting = yield* Semaphore.make(connections)
  const all = new Map<CameraId, Listened>()
  const lost = Object.entries(known).filter(([, { lost }]) => lost)
  const connection = new StateTeller<Connection>(null, new Map(lost.map(([id]) => [id, "lost" as const])))
  const publish = (id: CameraId, listened: Listened) =>
    Effect.flatMap(
      Clock.currentTimeMillis,
      (nowMs) =>
        Effect.forEach(listened.notices.due(nowMs), (telling) => events.publish(draftOf(id, listened, telling)), {
          discard: true,
        }),
    )
  const heard = (id: CameraId, listened: Listened) => (notices: ReadonlyArray<DeviceNotice>, leftOut: number) =>
    Effect.gen(function*() {
      connection.see(id, "connected", "", yield* Clock.currentTimeMillis)
      listened.notices.leaveOut(leftOut)
      for (const notice of notices) {
        listened.notices.see(notice, channelOf(listened, notice) ?? "")
        // What was so before comes together; what happens now may be over with the next.
        if (!notice.initial) yield* publish(id, listened)
      }
      yield* publish(id, listened)
    })

  /** Until the connection or the subscription breaks. */
  const session = Effect.fnUntraced(function*(id: CameraId, listened: Listened) {
    const camera = yield* store.get(id)
    listened.camera = camera
    const { driver, options } = yield* doorOf({ store, vault, drivers }, id, "events")
    const device = yield* Semaphore.withPermit(connecting)(driver.connect(yield* options(requestTimeoutMs)))
    if (device.events === null || camera === null) return "silent" as const
    listened.offsetMs = device.clockOffsetMs
    listened.channels = yield* channelsBySource(camera, device)
    const subscription = yield* device.events
    listened.notices.begin()
    connection.see(id, "connected", "", yield* Clock.currentTimeMillis)
    return yield* pulling(subscription, heard(id, listened))
  }, Effect.scoped)

  const listen = (id: CameraId, listened: Listened) =>
    Effect.gen(function*() {
      let waitMs = Duration.toMillis(retryFirst)
      while (true) {
        const startMs = yield* Clock.currentTimeMillis
        const ended = yield* session(id, listened).pipe(
          Effect.catch((error) => Effect.succeed(error)),
          Effect.catchDefect((defect) =>
            Effect.as(Effect.logError("Listening to a camera broke", defect), "broken" as const)
          ),
        )
        if (ended === "silent") {
          yield* Effect.sleep(silentWait)
          continue
        }
        const nowMs = yield* Clock.currentTimeMillis
        const reason = ended === "broken" ? ended : ended.message
        yield* Effect.logDebug("A camera is not listened to", { cameraId: id, reason })
        if (ended !== "broken" && ended._tag === "OnvifOperationUnsupported") yield* Effect.sleep(silentWait)
        else if (ended === "broken" || ended._tag !== "DependencyUnavailable") {
          connection.see(id, "lost", reason, nowMs)
        }
        if (ended !== "broken" && ended._tag === "CameraAuthFailed") yield* Effect.sleep(refusedWait)
        // What went well for a while begins anew.
        if (nowMs - startMs > Duration.toMillis(retryLast)) waitMs = Duration.toMillis(retryFirst)
        yield* Effect.sleep(waitMs)
        waitMs = Math.min(waitMs * 2, Duration.toMillis(retryLast))
      }
    })

  const missed = Effect.fnUntraced(function*(id: CameraId, listened: Listened, nowMs: number) {
    listened.missed += listened.notices.takeMissed()
    if (listened.missed === 0) return
    listened.missedSinceMs ??= nowMs
    if (nowMs - listened.missedSinceMs < Duration.toMillis(missedEvery)) return
    yield* events.publish({
      type: "camera.events.limited",
      subject: id,
      resource: resourceOf(id, null),
      data: {
        name: listened.camera?.name ?? "",
        cameraId: id,
        leftOut: listened.missed,
        since: new Date(listened.missedSinceMs).toISOString(),
      },
    })
    listened.missed = 0
    listened.missedSinceMs = null
  })
  /** What had no room before, what was left out, and who is not heard any more. */
  const look = Effect.gen(function*() {
    const nowMs = yield* Clock.currentTimeMillis
    for (const [id, listened] of all) {
      yield* publish(id, listened)
      yield* missed(id, listened, nowMs)
    }
    for (const { id, reason, sinceMs, state } of connection.due(nowMs)) {
      const cameraId = id as CameraId
      const name = all.get(cameraId)?.camera?.name ?? ""
      // One that was always well is not told to be back.
      if (state === "connected" && !troubled.delete(cameraId)) continue
      if (state === "lost") troubled.add(cameraId)
      yield* events.publish({
        type: state === "lost" ? "camera.connection.lost" : "camera.connection.restored",
        subject: cameraId,
        timeMs: sinceMs,
        resource: resourceOf(cameraId, null),
        data: { name, cameraId, reason },
      })
    }
  })
  const troubled = new Set(lost.map(([id]) => id as CameraId))
  return {
    look,
    listen: (id: CameraId) =>
      Effect.suspend(() => {
        const listened = all.get(id) ?? {
          notices: new CameraNotices(known[id]?.on),
          camera: null,
          channels: new Map(),
          offsetMs: 0,
          missed: 0,
          missedSinceMs: null,
        }
        all.set(id, listened)
        return listen(id, listened)
      }),
    forget: (id: CameraId) => {
      all.delete(id)
      troubled.delete(id)
      connection.keepOnly(new Set(all.keys()))
    },
    told: (): Told =>
      Object.fromEntries(
        [...all].map(([id, { notices }]) => [id, { on: notices.on(), lost: troubled.has(id) }] as const)
          .filter(([, { lost, on }]) => lost || on.length > 0),
      ),
  }
})

/** What was told, over restarts of the process. */
const makeMemory = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const known = yield* fs.readFileString(path).pipe(Effect.flatMap(decodeTold), Effect.orElseSucceed((): Told => ({})))
  let kept = JSON.stringify(known)
  const keep = (told: Told) => {
    const text = JSON.stringify(told)
    return text === kept ?
      Effect.void :
      fs.writeFileString(`${path}.new`, text, { mode: 0o600 }).pipe(
        Effect.andThen(fs.rename(`${path}.new`, path)),
        Effect.andThen(Effect.sync(() => {
          kept = text
        })),
        Effect.catch((error) => Effect.logDebug("What cameras told could not be noted", error)),
      )
  }
  return { known, keep }
})

const make = Effect.fnUntraced(function*(options: CameraEventOptions) {
  const [ownership, store] = yield* Effect.all([Ownership, CameraStore])
  const { keep, known } = yield* makeMemory(options.toldPath)
  const listening = yield* makeListening(known)
  const fibers = yield* FiberMap.make<CameraId>()
  const started = new Map<CameraId, string>()

  const round = Effect.gen(function*() {
    const mine = (yield* ownership.owners).filter((owner) => owner.nodeId === ownership.nodeId)
    const cameras = mine.length === 0 ? [] : yield* store.listened(mine.map(({ slot }) => slot))
    const wanted = new Map(cameras.map(({ id, version }) => [id, String(version)]))
    for (const id of [...started.keys()].filter((one) => !wanted.has(one))) {
      yield* FiberMap.remove(fibers, id)
      listening.forget(id)
      started.delete(id)
    }
    for (const [id, mark] of wanted) {
      if (started.get(id) === mark) continue
      yield* FiberMap.run(fibers, id, listening.listen(id))
      started.set(id, mark)
    }
  })
  const look = Effect.andThen(listening.look, Effect.suspend(() => keep(listening.told())))
  yield* Effect.addFinalizer(() => Effect.suspend(() => keep(listening.told())))
  yield* look.pipe(
    Effect.catchCause((cause) => Effect.logError("What cameras notice could not be told", cause)),
    Effect.repeat(Schedule.spaced(lookEvery)),
    Effect.forkScoped,
  )
  yield* Stream.merge(ownership.changes, Stream.fromSchedule(Schedule.spaced(roundEvery))).pipe(
    Stream.runForEach(() =>
      round.pipe(
        Effect.catchTag("DependencyUnavailable", () => Effect.logDebug("Who is listened to stays as it is")),
        Effect.catchCause((cause) => Effect.logError("A round of listening to cameras failed", cause)),
      )
    ),
    Effect.forkScoped,
  )
})

export const layer = (options: CameraEventOptions) => Layer.effectDiscard(make(options))
