/**
 * The service `TalkBack`: on the node that a talker speaks to, connects his voice with the camera's loudspeaker for as long as he
 * holds the camera.
 *
 * Invariants
 * 1. Nobody is connected without the lease of the camera's entity; whoever loses it (ended elsewhere, not renewed in time) is
 *    disconnected.
 * 2. A session ends with DELETE, with the browser's connection, {@link silenceMs} after the last word, after {@link longestMs}, with the login session, with the
 *    permission, and with the camera's connection. Each end is in the audit log, and why; so is a beginning that no call of the
 *    interface was.
 * 3. A voice is passed on as it comes: nothing is decoded, and at most half a second waits.
 */
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { CameraTalkActor, leaseMs, type Speaker, TalkBack, type TalkOpening } from "#actors/protocol/camera-talk.ts"
import { mayStill } from "#actors/protocol/camera-watch.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { ask } from "#cluster/ask.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Backchannel, Backchannels } from "#media/backchannel.ts"
import type { SourceError } from "#media/source.ts"
import { type IncomingPeer, WebRtc } from "#media/webrtc.ts"
import { CameraAuthFailed, CameraRefused, CameraUnreachable } from "#schema/camera-device.ts"
import {
  TalkBackElsewhere,
  TalkBackNotOpen,
  TalkBackTaken,
  TalkBackUnsupported,
  type TalkLease,
  TalkOfferRefused,
  type TalkSession,
} from "#schema/camera-talk.ts"
import { type CameraStream, StreamNotFound } from "#schema/camera.ts"
import type { CameraId, EpochMs, StreamId } from "#schema/common.ts"
import { entityId } from "#schema/ownership.ts"
import { decide, type ResourceRef, type UserPrincipal } from "#schema/permission.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Deferred, Effect, Exit, FiberSet, Layer, Scope } from "effect"
import { credentialsOf } from "./camera-assignment.ts"

export const silenceMs = 15_000
const longestMs = 3_600_000
const renewEveryMs = 2_000
/** Whoever may not talk any more is cut off within two seconds, the notice of it included. */
const checkEveryMs = 500
const requestTimeoutMs = 5_000
/** All of it, within the first lease. */
const connectMs = 8_000
/** Twice what G.711 needs, headers included. */
const maxBitrate = 200_000

/** Why a session ended. */
type Cause = "closed" | "hungUp" | "silence" | "tooLong" | "notAllowed" | "camera" | "lost" | "stopped"

interface Live {
  readonly lease: TalkLease
  readonly who: UserPrincipal
  readonly opening: TalkOpening
  readonly resource: ReadonlyArray<ResourceRef>
  readonly channel: Backchannel
  readonly scope: Scope.Closeable
  readonly ended: Deferred.Deferred<void>
  peer: IncomingPeer | null
  over: boolean
}

const whipUrl = (streamId: StreamId) => `/camera/api/v1/streams/${streamId}/backchannel/whip`

/** What a camera said, as the interface says it. */
const told = (error: SourceError): TalkBackUnsupported | CameraAuthFailed | CameraUnreachable | CameraRefused => {
  const { detail, reason } = error
  switch (reason) {
    case "unsupported":
      return new TalkBackUnsupported({ detail })
    case "unauthorized":
      return new CameraAuthFailed({ detail })
    case "refused":
    case "notFound":
      return new CameraRefused({ operation: "talk-back", detail })
    case "unreachable":
    case "timeout":
    case "protocol":
      return new CameraUnreachable({ reason, detail })
    case "closed":
    case "publisherAway":
      return new CameraUnreachable({ reason: "unreachable", detail })
  }
}

const untilOf = ({ channel, lease }: Live): EpochMs =>
  Math.min(lease.sinceMs + longestMs, Math.max(lease.sinceMs, channel.heardMs() ?? 0) + silenceMs)

const sessionOf = (live: Live): TalkSession => ({
  id: live.lease.id,
  streamId: live.lease.streamId,
  cameraId: live.lease.cameraId,
  holder: { userId: live.lease.userId, username: live.lease.username },
  via: live.lease.via,
  codec: live.channel.codec,
  since: live.lease.sinceMs,
  until: untilOf(live),
  whipUrl: whipUrl(live.lease.streamId),
})

const placeOf = ({ cameraId, channelId }: CameraStream): ReadonlyArray<ResourceRef> => [
  { kind: "channel", id: channelId },
  { kind: "camera", id: cameraId },
]

/** The entity of each camera. */
const makeLeases = Effect.gen(function*() {
  const store = yield* CameraStore
  const clientOf = yield* CameraTalkActor.client
  const entity = Effect.fnUntraced(function*(cameraId: CameraId) {
    const home = yield* store.home(cameraId)
    if (home === null) return yield* new DependencyUnavailable({ dependency: "node", message: "The camera is gone." })
    return clientOf(entityId(home.slot, cameraId))
  })
  return {
    hold: (lease: TalkLease) => Effect.flatMap(entity(lease.cameraId), (one) => ask(one.Hold({ lease }))),
    end: ({ cameraId, id }: TalkLease) => Effect.flatMap(entity(cameraId), (one) => ask(one.End({ id }))),
    current: (cameraId: CameraId) => Effect.flatMap(entity(cameraId), (one) => ask(one.Current())),
  }
})

/** A connection with the camera's loudspeaker, by the stream's own address and credentials. */
const makeConnect = Effect.gen(function*() {
  const [store, vault, backchannels] = yield* Effect.all([CameraStore, Vault, Backchannels])
  return Effect.fnUntraced(function*({ cameraId, id }: CameraStream) {
    const row = (yield* store.captures({ cameraId })).find(({ streamId }) => streamId === id)
    if (row === undefined) return yield* new StreamNotFound({ id })
    if (row.driver === "mobile") return yield* new TalkBackUnsupported({ detail: "a phone takes no sound from here" })
    const { context, sealed, username } = credentialsOf(row)
    const password = sealed === null ?
      null :
      yield* vault.open(context, sealed).pipe(
        Effect.catchTag("VaultError", () =>
          Effect.fail(new CameraAuthFailed({ detail: "its password cannot be opened; set it anew" }))),
      )
    const options = { url: row.url, username, password, transport: "tcp", requestTimeoutMs, drainEveryMs: 0 } as const
    return yield* backchannels.open(options).pipe(
      Effect.mapError(told),
      Effect.timeoutOrElse({
        duration: connectMs,
        orElse: () => Effect.fail(new CameraUnreachable({ reason: "timeout", detail: "it did not answer in time" })),
      }),
    )
  })
})

type Leases = Effect.Success<typeof makeLeases>

const makeEnding = Effect.gen(function*() {
  const audit = yield* AuditTrail
  const factOf = ({ lease, opening, who }: Live, action: string, detail: Record<string, string | number>) => ({
    action,
    outcome: "success" as const,
    actor: { kind: "user" as const, id: who.userId, name: who.username, sessionId: who.sessionId },
    address: opening.address,
    userAgent: opening.userAgent,
    resource: { kind: "stream", id: lease.streamId },
    status: null,
    traceId: null,
    origin: "server" as const,
    detail,
  })
  const record = (live: Live, action: string, detail: Record<string, string | number>) =>
    audit.record(factOf(live, action, detail)).pipe(
      Effect.catch((error) => Effect.logWarning("Talking to a camera could not be recorded in the audit log", error)),
    )
  return {
    began: (live: Live) => record(live, "camera.talk.began", { via: live.lease.via }),
    ended: (live: Live, cause: Cause, nowMs: number) =>
      record(live, "camera.talk.ended", {
        cause,
        seconds: Math.round((nowMs - live.lease.sinceMs) / 1000),
        packets: live.channel.statistics().sentPackets,
      }),
  }
})

/** Watches over a session until it is over; answers why. */
const watch = (live: Live, tokens: AccessTokens["Service"], leases: Leases): Effect.Effect<Cause> => {
  const { lease, opening, resource, who } = live
  const grant = { sessionId: who.sessionId, userId: who.userId, resource }
  const holds = opening.holds ?? mayStill(tokens, "camera:talk", grant)
  const checks = Effect.gen(function*(): Effect.fn.Return<Cause> {
    for (;;) {
      yield* Effect.sleep(checkEveryMs)
      const nowMs = yield* Clock.currentTimeMillis
      if (!(yield* holds)) return "notAllowed"
      if (nowMs >= lease.sinceMs + longestMs) return "tooLong"
      if (nowMs >= untilOf(live)) return "silence"
    }
  })
  const renewals = Effect.gen(function*(): Effect.fn.Return<Cause> {
    let renewedMs = yield* Clock.currentTimeMillis
    for (;;) {
      yield* Effect.sleep(renewEveryMs)
      const nowMs = yield* Clock.currentTimeMillis
      const kept = yield* leases.hold({ ...lease, untilMs: untilOf(live) }).pipe(
        Effect.timeout(leaseMs / 2),
        Effect.catchTags({
          TalkBackTaken: () => Effect.succeed(false),
          ControlElsewhere: () => Effect.succeed(false),
        }),
        // Its owner moves, or the database is away: the lease holds for a while longer.
        Effect.catch(() => Effect.succeed(null)),
      )
      if (kept === false) return "closed"
      if (kept === true) renewedMs = nowMs
      if (nowMs - renewedMs > leaseMs - renewEveryMs) return "lost"
    }
  })
  const connection = live.channel.ended.pipe(Effect.catch(() => Effect.succeed<Cause>("camera")))
  return Effect.raceFirst(Effect.raceFirst(checks, renewals), connection)
}

const make = Effect.gen(function*() {
  const [cameras, tokens, identity, webRtc] = yield* Effect.all([Cameras, AccessTokens, NodeIdentity, WebRtc])
  const leases = yield* makeLeases
  const connect = yield* makeConnect
  const log = yield* makeEnding
  const scope = yield* Effect.scope
  const run = yield* FiberSet.makeRuntime()
  const open = new Map<CameraId, Live>()

  const end = (live: Live, cause: Cause): Effect.Effect<void> =>
    Effect.suspend(() => {
      if (live.over) return Effect.void
      live.over = true
      if (open.get(live.lease.cameraId) === live) open.delete(live.lease.cameraId)
      live.peer?.close()
      return Effect.gen(function*() {
        yield* Scope.close(live.scope, Exit.void)
        yield* Effect.ignore(leases.end(live.lease))
        yield* log.ended(live, cause, yield* Clock.currentTimeMillis)
        yield* Deferred.succeed(live.ended, undefined)
      }).pipe(Effect.uninterruptible)
    })
  yield* Effect.addFinalizer(() =>
    Effect.forEach([...open.values()], (live) => end(live, "stopped"), { discard: true })
  )

  const mine = (streamId: StreamId, who: UserPrincipal, cameraId: CameraId): Live | null => {
    const live = open.get(cameraId)
    return live !== undefined && live.lease.streamId === streamId && live.who.sessionId === who.sessionId ? live : null
  }

  /** The caller's own session on this node. */
  const own = Effect.fnUntraced(function*(streamId: StreamId, who: UserPrincipal) {
    const { cameraId } = yield* cameras.stream(streamId)
    const live = mine(streamId, who, cameraId)
    if (live !== null) return live
    const lease = yield* leases.current(cameraId)
    if (lease === null || lease.sessionId !== who.sessionId) return yield* new TalkBackNotOpen()
    return yield* lease.nodeId === identity.nodeId ?
      new TalkBackNotOpen() :
      new TalkBackElsewhere({ nodeId: lease.nodeId })
  })

  const begin = Effect.fnUntraced(function*(stream: CameraStream, who: UserPrincipal, opening: TalkOpening) {
    const sinceMs = yield* Clock.currentTimeMillis
    const lease: TalkLease = {
      id: yield* uuid7,
      cameraId: stream.cameraId,
      streamId: stream.id,
      userId: who.userId,
      username: who.username,
      sessionId: who.sessionId,
      nodeId: identity.nodeId,
      via: opening.via,
      sinceMs,
      untilMs: sinceMs + silenceMs,
    }
    yield* leases.hold(lease)
    const own = yield* Scope.fork(scope)
    const channel = yield* connect(stream).pipe(
      Scope.provide(own),
      Effect.onExit((exit) =>
        Exit.isSuccess(exit) ?
          Effect.void :
          Effect.andThen(Scope.close(own, Exit.void), Effect.ignore(leases.end(lease)))
      ),
    )
    const ended = yield* Deferred.make<void>()
    const live: Live = {
      lease,
      who,
      opening,
      resource: placeOf(stream),
      channel,
      scope: own,
      ended,
      peer: null,
      over: false,
    }
    open.set(stream.cameraId, live)
    if (opening.via === "rtsp") yield* log.began(live)
    yield* Effect.forkIn(Effect.flatMap(watch(live, tokens, leases), (cause) => end(live, cause)), scope)
    return live
  })

  return TalkBack.of({
    open: Effect.fn("TalkBack.open")(function*(streamId, who, opening) {
      const stream = yield* cameras.stream(streamId)
      const live = mine(streamId, who, stream.cameraId) ?? (yield* begin(stream, who, opening))
      return sessionOf(live)
    }),
    close: Effect.fn("TalkBack.close")(function*(streamId, who) {
      const stream = yield* cameras.stream(streamId)
      const lease = yield* leases.current(stream.cameraId)
      if (lease === null || lease.streamId !== streamId) return yield* new TalkBackNotOpen()
      const allowed = lease.userId === who.userId || decide(who, "camera:write", placeOf(stream)).allowed
      if (!allowed) return yield* new TalkBackTaken({ holder: lease.username, since: lease.sinceMs })
      const live = open.get(stream.cameraId)
      yield* live?.lease.id === lease.id ? end(live, "closed") : leases.end(lease)
    }),
    status: Effect.fn("TalkBack.status")(function*(streamId, who) {
      const { cameraId } = yield* cameras.stream(streamId)
      const lease = yield* leases.current(cameraId)
      return {
        streamId,
        cameraId,
        active: lease !== null,
        session: lease === null ? null : {
          id: lease.id,
          streamId: lease.streamId,
          holder: { userId: lease.userId, username: lease.username },
          via: lease.via,
          since: lease.sinceMs,
          until: lease.untilMs,
          mine: lease.sessionId === who.sessionId,
          nodeId: lease.nodeId,
        },
      }
    }),
    speaker: (streamId, who) =>
      Effect.map(own(streamId, who), (live): Speaker => ({
        codec: live.channel.codec,
        hear: live.channel.hear,
        ended: Deferred.await(live.ended),
        close: end(live, "closed"),
      })),
    offer: Effect.fn("TalkBack.offer")(function*(streamId, who, offer) {
      const live = yield* own(streamId, who)
      const { channel } = live
      const taken: { peer: IncomingPeer | null } = { peer: null }
      const wish = { video: "none", audio: [channel.codec], audioRequired: true, maxBitrate } as const
      const peer = yield* webRtc.receive(offer, wish, {
        onConnected: () => {},
        onRtp: (_track, packet) => channel.hear(packet, 0, packet.length),
        onSenderReport: () => {},
        onEnd: () => {
          if (live.peer !== null && live.peer === taken.peer) run(end(live, "hungUp"))
        },
      }).pipe(Effect.catchTags({
        SdpRefused: ({ problem }) => Effect.fail(new TalkOfferRefused({ detail: problem })),
        WebRtcClosed: () =>
          Effect.fail(new DependencyUnavailable({ dependency: "webrtc", message: "WebRTC is not available here." })),
        WebRtcBusy: () =>
          Effect.fail(new DependencyUnavailable({ dependency: "webrtc", message: "Too many browsers are connected." })),
      }))
      const before = live.peer
      taken.peer = peer
      live.peer = peer
      before?.close()
      if (live.over) peer.close()
      return { id: peer.id, answer: peer.answer }
    }),
  })
})

export const layer = Layer.effect(TalkBack, make)
