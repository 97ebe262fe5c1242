/** Cameras: status, assignments, stream tokens. No database. */
import { AccessTokensLive } from "#actors/behaviour/auth-tokens.ts"
import * as Access from "#actors/behaviour/camera-access.ts"
import { compose } from "#actors/behaviour/camera-assignment.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { mayWatch } from "#actors/protocol/camera-watch.ts"
import { Cameras, StreamAccess } from "#actors/protocol/camera.ts"
import { RecordingPlans } from "#actors/protocol/record-plan.ts"
import { Replays } from "#actors/protocol/replay.ts"
import type { CaptureRow } from "#actors/store/camera-rows.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Member, Members } from "#cluster/members.ts"
import { defaultSecuritySettings } from "#schema/auth-security.ts"
import { type CameraStatus, type CameraStream, statusOf } from "#schema/camera.ts"
import { CameraId, ChannelId, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import type { Grant, ResourceKey } from "#schema/permission.ts"
import { Vault, VaultError } from "#schema/vault.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { SignJWT } from "jose"
import { generateKeyPairSync } from "node:crypto"
import { principal, unaskedService } from "./http-fixtures.ts"

const uuid = (n: number) => `0190a0a0-0000-7000-8000-${n.toString(16).padStart(12, "0")}`
const nodeId = NodeId.make(uuid(1))
const cameraId = CameraId.make(uuid(2))
const channelId = ChannelId.make(uuid(3))
const streamId = StreamId.make(uuid(4))

describe("the status of a camera", () => {
  const cases: ReadonlyArray<readonly [ReadonlyArray<CameraStatus>, CameraStatus]> = [
    [[], "disabled"],
    [["disabled", "disabled"], "disabled"],
    [["online", "online"], "online"],
    [["online", "disabled"], "online"],
    [["online", "offline"], "degraded"],
    [["degraded"], "degraded"],
    [["offline", "authFailed"], "authFailed"],
    [["offline", "probing"], "offline"],
    [["probing", "registered"], "probing"],
    [["registered"], "registered"],
    [["online", "idle"], "online"],
    [["offline", "idle"], "offline"],
    [["idle", "disabled"], "idle"],
  ]
  it.each(cases)("of %j is %s", (streams, status) => {
    assert.strictEqual(statusOf(streams.map((one) => ({ status: one, reason: one }))).status, status)
  })

  it("tells the reason of the worst", () => {
    assert.deepStrictEqual(
      statusOf([{ status: "online", reason: "" }, { status: "offline", reason: "connection refused" }]),
      { status: "degraded", reason: "connection refused" },
    )
  })
})

/** Seals by writing the context before the secret. */
const openVault = Layer.succeed(Vault, {
  seal: (context, secret) => Effect.succeed(`${context}=${Redacted.value(secret)}`),
  open: (context, sealed) =>
    sealed.startsWith(`${context}=`) ?
      Effect.succeed(Redacted.make(sealed.slice(context.length + 1))) :
      Effect.fail(new VaultError({ reason: "forged", context })),
})

const row: CaptureRow = {
  cameraId,
  channelId,
  streamId,
  driver: "rtsp",
  role: "main",
  url: "rtsp://camera.example/",
  transport: "tcp",
  enabled: true,
  onDemand: true,
  cameraUsername: "admin",
  cameraPassword: `camera/${cameraId}/password=of the camera`,
  streamUsername: null,
  streamPassword: null,
  cameraName: "Front door",
  channelName: "Channel 1",
}
const plan = {
  recordingId: RecordingId.make(uuid(5)),
  recordingToken: RecordingToken.make(uuid(6)),
  cameraId,
  channelId,
  role: "main" as const,
  enabled: true,
  retentionDays: 3,
  maxBytes: 0,
}

describe("assignments", () => {
  it.effect("carry the slot's epoch, the plan of their stream, and the credentials that are nearest", () =>
    Effect.gen(function*() {
      const rows: ReadonlyArray<CaptureRow> = [
        row,
        { ...row, role: "sub", streamUsername: "viewer", streamPassword: `stream/${streamId}/password=of the stream` },
        { ...row, driver: "mobile" },
      ]
      const made = yield* compose(rows, [plan], { nodeId, epoch: 7 })
      assert.lengthOf(made, 3)
      assert.deepInclude(made[0], { epoch: 7, nodeId, username: "admin", driver: "rtsp" })
      assert.deepInclude(made[0]!.recording, { recordingId: plan.recordingId, retentionDays: 3 })
      assert.strictEqual(Redacted.value(made[0]!.password!), "of the camera")
      assert.deepInclude(made[1], { username: "viewer", recording: null })
      assert.strictEqual(Redacted.value(made[1]!.password!), "of the stream")
      assert.deepInclude(made[2], { driver: "mobile", onDemand: true })
    }).pipe(Effect.provide(openVault)))

  it.effect("go without a password that was sealed for another place", () =>
    Effect.gen(function*() {
      const [made] = yield* compose([{ ...row, cameraPassword: "camera/other/password=stolen" }], [], {
        nodeId,
        epoch: 1,
      })
      assert.isNull(made!.password)
    }).pipe(Effect.provide(openVault)))
})

describe("stream tokens", () => {
  const stream = { id: streamId, cameraId, channelId, role: "main" } as CameraStream
  const { privateKey } = generateKeyPairSync("ed25519")
  const key = { privateKey, publicKey: "" }
  const cameras = Layer.succeed(Cameras, { stream: () => Effect.succeed(stream) } as unknown as Cameras["Service"])
  const identity = Layer.succeed(NodeIdentity, { nodeId, createdMs: 0, signing: key, transfer: key })
  const other = generateKeyPairSync("ed25519")
  const strange = generateKeyPairSync("ed25519")
  const memberOf = (id: string, { publicKey }: typeof other, admitted: boolean) => ({
    nodeId: NodeId.make(id),
    signingKey: publicKey.export({ format: "jwk" }).x,
    admitted,
  })
  const [otherId, strangeId] = ["01890a5d-ac96-774b-bcce-b302099a8101", "01890a5d-ac96-774b-bcce-b302099a8102"] as const
  const members = Layer.mock(Members, {
    list: Effect.succeed([
      memberOf(otherId, other, true),
      memberOf(strangeId, strange, false),
    ] as unknown as ReadonlyArray<Member>),
  })
  const opened = { sessionId: "s", uri: "/replay/api/v1/hls/s/master.m3u8" }
  const replays = Layer.succeed(Replays, { open: () => Effect.succeed(opened) } as unknown as Replays["Service"])
  const planned = Layer.succeed(RecordingPlans, {
    ofCameras: () => Effect.succeed([plan]),
    strangers: () => Effect.succeed(new Set()),
  })
  const layer = Access.layer.pipe(
    Layer.provide([cameras, identity, members, replays, planned]),
    Layer.provideMerge(AccessTokensLive),
  )

  it.effect("end with the session they were given in", () =>
    Effect.gen(function*() {
      const access = yield* StreamAccess
      const tokens = yield* AccessTokens
      const viewer = principal("viewer")
      const token = Redacted.make((yield* access.token(streamId, viewer)).token)
      yield* tokens.endSession("0190163d-8694-7395-8ad4-5b8a3f3d0aff")
      assert.strictEqual((yield* access.verify(token)).sessionId, viewer.sessionId)
      yield* tokens.endSession(viewer.sessionId)
      assert.strictEqual((yield* Effect.flip(access.verify(token)))._tag, "StreamTokenInvalid")
      yield* TestClock.adjust("4 minutes")
      assert.strictEqual((yield* Effect.flip(access.verify(token)))._tag, "StreamTokenInvalid")
    }).pipe(Effect.provide(layer)))

  it.effect("of another member open this node's doors, those of a stranger do not", () =>
    Effect.gen(function*() {
      const access = yield* StreamAccess
      yield* TestClock.setTime(1_700_000_000_000)
      const viewer = principal("viewer")
      const signed = (kid: string, key: typeof other) =>
        Effect.promise(() =>
          new SignJWT({ sid: viewer.sessionId, uid: viewer.userId })
            .setProtectedHeader({ alg: "EdDSA", typ: "nightjar-stream+jwt", kid })
            .setSubject(streamId)
            .setAudience("nightjar:stream")
            .setExpirationTime(1_700_000_060)
            .sign(key.privateKey)
        )
      assert.strictEqual((yield* access.verify(Redacted.make(yield* signed(otherId, other)))).streamId, streamId)
      for (const [kid, key] of [[strangeId, strange], [otherId, strange], [nodeId, other]] as const) {
        const token = Redacted.make(yield* signed(kid, key))
        assert.strictEqual((yield* Effect.flip(access.verify(token)))._tag, "StreamTokenInvalid")
      }
    }).pipe(Effect.provide(layer)))

  it.effect("end with the permission to watch, for those who are in as well", () =>
    Effect.gen(function*() {
      const access = yield* StreamAccess
      const tokens = yield* AccessTokens
      const viewer = principal("viewer")
      const holding = (resources: Grant["resources"], roles: ReadonlyArray<string> = ["watcher"]) =>
        tokens.trust({
          keys: [],
          roles: [{ role: "watcher", permissions: ["camera:live"], resources }],
          users: { roles: new Map([[viewer.userId, roles]]), complete: true },
          endedSessions: new Set(),
          security: defaultSecuritySettings,
        })
      yield* holding(new Set<ResourceKey>([`camera:${cameraId}`]))
      const token = Redacted.make((yield* access.token(streamId, viewer)).token)
      const grant = yield* access.verify(token)
      assert.isTrue(yield* mayWatch(tokens, grant))
      for (const change of [holding(new Set<ResourceKey>([`camera:${uuid(98)}`])), holding("all", [])]) {
        yield* change
        assert.isFalse(yield* mayWatch(tokens, grant))
        assert.strictEqual((yield* Effect.flip(access.verify(token)))._tag, "StreamTokenInvalid")
      }
      yield* holding("all")
      assert.isTrue(yield* mayWatch(tokens, grant))
    }).pipe(Effect.provide(layer)))

  it.effect("open one stream for one session, for five minutes", () =>
    Effect.gen(function*() {
      const access = yield* StreamAccess
      const viewer = principal("viewer")
      yield* TestClock.setTime(1_700_000_000_000)
      const path = yield* access.mediaPath(streamId, viewer)
      assert.deepInclude(path, {
        streamId,
        hlsUrl: opened.uri,
        whepUrl: null,
        whepLimit: null,
        rtspUrl: null,
        expiresAt: 1_700_000_300_000,
      })
      const token = Redacted.make(path.token)
      assert.deepStrictEqual(yield* access.verify(token), {
        streamId,
        sessionId: viewer.sessionId,
        userId: viewer.userId,
        resource: [{ kind: "channel", id: channelId }, { kind: "camera", id: cameraId }],
        expiresMs: path.expiresAt,
      })

      const [head, body, signature] = path.token.split(".")
      const claims = JSON.parse(Buffer.from(body!, "base64url").toString()) as object
      const forged = [head, Buffer.from(JSON.stringify({ ...claims, sub: uuid(99) })).toString("base64url"), signature]
        .join(".")
      for (const bad of [forged, "", "a.b.c", `${path.token}x`]) {
        assert.strictEqual((yield* Effect.flip(access.verify(Redacted.make(bad))))._tag, "StreamTokenInvalid")
      }
      yield* TestClock.adjust("5 minutes")
      assert.strictEqual((yield* Effect.flip(access.verify(token)))._tag, "StreamTokenInvalid")
      assert.strictEqual(
        (yield* access.verify(Redacted.make((yield* access.token(streamId, viewer)).token))).streamId,
        streamId,
      )
    }).pipe(Effect.provide(layer)))

  it.effect("offer no footage to those who may not replay", () =>
    Effect.gen(function*() {
      const access = yield* StreamAccess
      const path = yield* access.mediaPath(streamId, { ...principal("viewer"), grants: [] })
      assert.isNull(path.hlsUrl)
    }).pipe(
      Effect.provide(
        Access.layer.pipe(
          Layer.provide([cameras, identity, members, unaskedService(Replays), planned, AccessTokensLive]),
        ),
      ),
    ))
})
