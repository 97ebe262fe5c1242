/**
 * The service `StreamAccess`: where a stream can be watched, and the short-lived token that opens it at a media door.
 *
 * The token is a JWT (RFC 7519) of its own type, signed with the node's identity key (EdDSA, RFC 8037): `sub` is the stream,
 * `sid` the login session.
 *
 * Invariants
 * 1. A token opens one stream for one session, {@link tokenLifetimeMs} long, and nothing else: its type and audience differ from
 *    those of access tokens. It is worth nothing once the session has ended or the user may not watch any more.
 * 2. Recorded footage is offered only to those who may replay.
 * 3. A token of one member of the cluster opens the doors of all of them.
 */
import { AccessTokens } from "#actors/protocol/auth.ts"
import { mayWatch } from "#actors/protocol/camera-watch.ts"
import { Cameras, StreamAccess, type StreamGrant } from "#actors/protocol/camera.ts"
import { RecordingPlans } from "#actors/protocol/record-plan.ts"
import { Replays } from "#actors/protocol/replay.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Member, Members } from "#cluster/members.ts"
import { soundRefusal } from "#media/live-hls.ts"
import { watchLimit } from "#media/webrtc-viewers.ts"
import { type CameraStream, StreamTokenInvalid } from "#schema/camera.ts"
import { type EpochMs, StreamId, UserId } from "#schema/common.ts"
import { decide, type ResourceRef, type UserPrincipal } from "#schema/permission.ts"
import { Clock, Effect, Layer, Redacted, Schema } from "effect"
import { jwtVerify, SignJWT } from "jose"
import { createPublicKey } from "node:crypto"

/** Long enough to connect and to come back after a hiccup; a viewer that stays refreshes it. */
export const tokenLifetimeMs = 300_000
/** How far before the present the newest footage begins, so that its first playlist is not empty. */
const leadMs = 20_000

const tokenType = "nightjar-stream+jwt"
const audience = "nightjar:stream"

const Claims = Schema.Struct({ sub: StreamId, sid: Schema.String, uid: UserId, exp: Schema.Int })
const decodeClaims = Schema.decodeUnknownEffect(Claims)

const make = Effect.gen(function*() {
  const [cameras, plans, replays, identity] = yield* Effect.all([Cameras, RecordingPlans, Replays, NodeIdentity])
  const tokens = yield* AccessTokens

  const members = yield* Members

  const publicKey = createPublicKey(identity.signing.privateKey)
  /** Of the member that signed it. */
  const keyOf = (all: ReadonlyArray<Member>) => ({ kid }: { readonly kid?: string }) => {
    const signer = all.find(({ admitted, nodeId }) => admitted && nodeId === kid && nodeId !== identity.nodeId)
    return signer === undefined ?
      publicKey :
      createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: signer.signingKey }, format: "jwk" })
  }

  const issue = Effect.fnUntraced(function*(streamId: StreamId, { sessionId, userId }: UserPrincipal) {
    const nowMs = yield* Clock.currentTimeMillis
    // Whole seconds, as the token has them.
    const expiresAt = Math.floor((nowMs + tokenLifetimeMs) / 1000) * 1000
    const token = yield* Effect.promise(() =>
      new SignJWT({ sid: sessionId, uid: userId })
        .setProtectedHeader({ alg: "EdDSA", typ: tokenType, kid: identity.nodeId })
        .setSubject(streamId)
        .setAudience(audience)
        .setIssuedAt(Math.floor(nowMs / 1000))
        .setExpirationTime(expiresAt / 1000)
        .sign(identity.signing.privateKey)
    )
    return { streamId, token, expiresAt }
  })

  /** A session over the newest footage; null where there is none or the caller may not see it. */
  const newestFootage = Effect.fnUntraced(function*(stream: CameraStream, who: UserPrincipal, nowMs: EpochMs) {
    const planned = yield* plans.ofCameras([stream.cameraId])
    const plan = planned.find((one) => one.channelId === stream.channelId && one.role === stream.role)
    if (plan === undefined) return null
    const footage: ReadonlyArray<ResourceRef> = [
      { kind: "recording", id: plan.recordingId },
      { kind: "channel", id: stream.channelId },
      { kind: "camera", id: stream.cameraId },
    ]
    if (!decide(who, "recording:replay", footage).allowed) return null
    return yield* replays.open(who, { recordingToken: plan.recordingToken, start: nowMs - leadMs }).pipe(
      Effect.map((session) => session.uri),
      Effect.catchTag(["FootageNotFound", "RecordingNotFound", "InvalidInput"], () => Effect.succeed(null)),
    )
  })

  return StreamAccess.of({
    mediaPath: Effect.fnUntraced(function*(id, who) {
      const stream = yield* cameras.stream(id)
      const hlsUrl = yield* newestFootage(stream, who, yield* Clock.currentTimeMillis)
      return {
        path: `live/${id}`,
        whepUrl: null,
        hlsUrl,
        rtspUrl: null,
        whepLimit: watchLimit(stream.codec, stream.audioCodec),
        liveHlsLimit: soundRefusal(stream.audioCodec),
        ...yield* issue(id, who),
      }
    }),
    beside: Effect.fnUntraced(function*({ streamId }) {
      const stream = yield* cameras.stream(streamId)
      const all = yield* cameras.streams(stream.channelId)
      return all.find(({ enabled, role }) => enabled && role !== stream.role)?.id ?? null
    }, Effect.catchTag(["StreamNotFound", "ChannelNotFound"], () => Effect.succeed(null))),
    token: (id, who) => Effect.flatMap(cameras.stream(id), () => issue(id, who)),
    verify: Effect.fnUntraced(function*(token) {
      const now = new Date(yield* Clock.currentTimeMillis)
      const key = keyOf(yield* members.list)
      const { payload } = yield* Effect.tryPromise({
        try: () =>
          jwtVerify(Redacted.value(token), key, {
            algorithms: ["EdDSA"],
            typ: tokenType,
            audience,
            currentDate: now,
          }),
        catch: () => new StreamTokenInvalid(),
      })
      const claims = yield* Effect.mapError(decodeClaims(payload), () => new StreamTokenInvalid())
      const stream = yield* cameras.stream(claims.sub).pipe(
        Effect.catchTag("StreamNotFound", () => Effect.fail(new StreamTokenInvalid())),
      )
      const grant: StreamGrant = {
        streamId: claims.sub,
        sessionId: claims.sid,
        userId: claims.uid,
        resource: [{ kind: "channel", id: stream.channelId }, { kind: "camera", id: stream.cameraId }],
        expiresMs: claims.exp * 1000,
      }
      return (yield* mayWatch(tokens, grant)) ? grant : yield* new StreamTokenInvalid()
    }),
  })
})

export const layer = Layer.effect(StreamAccess, make)
