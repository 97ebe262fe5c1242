/**
 * The RTSP server as this node runs it: who may read what is decided by the tokens of `StreamAccess` and of users.
 *
 * Invariants
 * 1. Recorded footage is for those who hold `recording:replay` on it, by a token of a stream of its own channel or by their access token.
 * 2. Who talks to a camera is a user who holds `camera:talk` on it, by the token of its stream; the account does not talk.
 * 3. Refusals are in the audit log, as many a second as it takes of any.
 */
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { Users } from "#actors/protocol/auth-users.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { TalkBack } from "#actors/protocol/camera-talk.ts"
import { mayWatch } from "#actors/protocol/camera-watch.ts"
import { StreamAccess, type StreamGrant } from "#actors/protocol/camera.ts"
import { Resources } from "#actors/protocol/permission.ts"
import {
  RtspGate,
  RtspGateClosed,
  type RtspGrant,
  type RtspRefusal,
  RtspRefused,
  RtspTalkRefused,
} from "#media/rtsp-server.ts"
import * as RtspServer from "#media/rtsp-server/live.ts"
import { anonymousActor, type AuditFact } from "#schema/auth-audit.ts"
import { RecordingId, type RecordingToken, type UserId } from "#schema/common.ts"
import { decide, type Grant, type ResourceRef, type UserPrincipal } from "#schema/permission.ts"
import { Effect, Layer, type Redacted } from "effect"
import type { Settings } from "./config.ts"
import { makeElsewhere } from "./rtsp-elsewhere.ts"

const principalOf = (userId: UserId, sessionId: string, grants: ReadonlyArray<Grant>): UserPrincipal => ({
  kind: "user",
  userId,
  username: "",
  sessionId,
  grants,
})

/** Whom a token speaks for; `channels`: where it is bound to a stream, what that lies in. */
interface Shown {
  readonly userId: UserId
  readonly sessionId: string
  readonly bound: ReadonlyArray<ResourceRef> | null
}

const factOf = ({ address, locked, userAgent, what }: RtspRefusal): AuditFact => {
  const [kind = "", id = ""] = what.split("/")
  return {
    action: "rtsp.enter",
    outcome: "refused",
    actor: anonymousActor,
    address,
    userAgent,
    resource: { kind: kind === "live" ? "stream" : "recordingToken", id },
    status: 401,
    traceId: null,
    origin: "server",
    detail: { locked },
  }
}

const talkReasons: Readonly<Record<string, RtspTalkRefused["reason"]>> = {
  TalkBackTaken: "taken",
  TalkBackElsewhere: "taken",
  TalkBackUnsupported: "unsupported",
}

const closed = () => new RtspGateClosed()
const isAway = (error: { readonly _tag: string }) => error._tag === "DependencyUnavailable"
const refusedOr = (error: { readonly _tag: string }) => isAway(error) ? new RtspGateClosed() : new RtspRefused()

const gate = Layer.effect(
  RtspGate,
  Effect.gen(function*() {
    const access = yield* StreamAccess
    const tokens = yield* AccessTokens
    const resources = yield* Resources
    const talkBack = yield* TalkBack
    const users = yield* Users
    const audit = yield* AuditTrail
    const elsewhere = yield* makeElsewhere
    /** Whether those who were let in may go on. */
    const checks = new WeakMap<RtspGrant, Effect.Effect<boolean>>()
    const granted = (grant: RtspGrant, check: Effect.Effect<boolean>): RtspGrant => {
      checks.set(grant, check)
      return grant
    }

    const watchers = new WeakMap<RtspGrant, StreamGrant>()
    const watcher = (grant: StreamGrant): RtspGrant => {
      const reader = granted({ holder: grant.sessionId, recordingId: null }, mayWatch(tokens, grant))
      watchers.set(reader, grant)
      return reader
    }

    /** Whoever watches, if he may talk as well. */
    const talkerOf = ({ resource, sessionId, userId }: StreamGrant) =>
      Effect.gen(function*() {
        const grants = yield* tokens.grantsOf(userId)
        const { username } = yield* users.get(userId)
        const principal = { ...principalOf(userId, sessionId, grants ?? []), username }
        return decide(principal, "camera:talk", resource).allowed ? principal : null
      }).pipe(Effect.catch(() => Effect.succeed(null)))

    const shownBy = (token: Redacted.Redacted): Effect.Effect<Shown, RtspRefused | RtspGateClosed> =>
      access.verify(token).pipe(
        Effect.map(({ resource, sessionId, userId }) => ({ userId, sessionId, bound: resource })),
        Effect.catchTag(
          "StreamTokenInvalid",
          () => Effect.map(tokens.verify(token), ({ sessionId, userId }) => ({ userId, sessionId, bound: null })),
        ),
        Effect.mapError(refusedOr),
      )

    const placeOf = (recordingToken: RecordingToken) =>
      resources.containing({ kind: "recordingToken", id: recordingToken }).pipe(
        Effect.mapError(closed),
        Effect.map((place) => {
          const recording = place?.find(({ kind }) => kind === "recording")
          return place === null || recording === undefined ? null : { place, id: RecordingId.make(recording.id) }
        }),
      )

    const mayReplay = ({ sessionId, userId }: Shown, place: ReadonlyArray<ResourceRef>) =>
      Effect.gen(function*() {
        if (yield* tokens.hasEnded(sessionId)) return false
        const grants = yield* tokens.grantsOf(userId).pipe(Effect.catch(() => Effect.succeed(null)))
        return grants !== null && decide(principalOf(userId, sessionId, grants), "recording:replay", place).allowed
      })

    return RtspGate.of({
      enter: (streamId, token) =>
        access.verify(token).pipe(
          Effect.mapError(refusedOr),
          Effect.flatMap((grant) =>
            grant.streamId === streamId ? Effect.sync(() => watcher(grant)) : Effect.fail(new RtspRefused())
          ),
        ),
      replay: Effect.fnUntraced(function*(recordingToken, token) {
        const shown = yield* shownBy(token)
        const found = yield* placeOf(recordingToken)
        if (found === null) return yield* new RtspRefused()
        const channel = found.place.find(({ kind }) => kind === "channel")?.id
        const { bound } = shown
        if (bound !== null && !bound.some(({ id, kind }) => kind === "channel" && id === channel)) {
          return yield* new RtspRefused()
        }
        const check = mayReplay(shown, found.place)
        if (!(yield* check)) return yield* new RtspRefused()
        return granted({ holder: shown.sessionId, recordingId: found.id }, check)
      }),
      talk: Effect.fnUntraced(function*(grant, streamId, from) {
        const watching = watchers.get(grant)
        // The account of the door is nobody whom the audit log could name.
        const principal = watching === undefined ? null : yield* talkerOf(watching)
        if (principal === null) return yield* new RtspTalkRefused({ reason: "notAllowed" })
        const speaker = yield* Effect.acquireRelease(
          Effect.andThen(
            talkBack.open(streamId, principal, { via: "rtsp", ...from }),
            talkBack.speaker(streamId, principal),
          ).pipe(Effect.mapError((error) => new RtspTalkRefused({ reason: talkReasons[error._tag] ?? "away" }))),
          ({ close }) => close,
        )
        return { codec: speaker.codec, hear: speaker.hear, ended: speaker.ended }
      }),
      elsewhere,
      recordingOf: (recordingToken) => Effect.map(placeOf(recordingToken), (found) => found?.id ?? null),
      refused: (refusal) => audit.note(factOf(refusal)),
      holds: (grant) => checks.get(grant) ?? Effect.succeed(false),
    })
  }),
)

/** Reads on the address that HTTP is served on. */
export const layer = (settings: Settings) => {
  const { httpHost: host, rtspPassword, rtspPort: port, rtspUser: username } = settings
  const account = username === "" || rtspPassword === null ? null : { username, password: rtspPassword }
  return RtspServer.layer({ host, port, account }).pipe(Layer.provide(gate))
}
