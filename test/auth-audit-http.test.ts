/** What of the HTTP interface becomes an entry of the audit log, seen by a trail that keeps its facts in memory. */
import { AuditLog, AuditTrail } from "#actors/protocol/auth-audit.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { Api } from "#http/contract/api.ts"
import { Audited } from "#http/contract/conventions.ts"
import { type AuditClass, type AuditEntry, type AuditFact, AuditUnavailable } from "#schema/auth-audit.ts"
import { InvalidCredentials } from "#schema/auth.ts"
import { CameraNotFound } from "#schema/camera.ts"
import { NodeId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Layer, Option, Stream } from "effect"
import { HttpApi } from "effect/http-api"
import { authWith, json, text, userId, webHandler } from "./http-fixtures.ts"

const cameraId = "0190163d-8694-7395-8ad4-5b8a3f3d0a0c"
const camera = `/camera/api/v1/cameras/${cameraId}`
const user = "0190163d-8694-7395-8ad4-5b8a3f3d0a02"

/** A trail in memory, and what it was told, in order. */
const memoryTrail = () => {
  const told: Array<readonly [how: "intent" | "end" | "record" | "note", fact: AuditFact]> = []
  const state = { full: false }
  const service = AuditTrail.of({
    records: (kind, outcome) => kind !== "none" || outcome === "refused",
    hasRoom: () => !state.full,
    record: (fact) =>
      state.full ? Effect.fail(new AuditUnavailable()) : Effect.sync(() => {
        told.push(["record", fact])
        return ""
      }),
    note: (fact) => Effect.sync(() => void told.push(["note", fact])),
    admit: (fact) =>
      state.full ? Effect.fail(new AuditUnavailable()) : Effect.sync(() => {
        told.push(["intent", fact])
        return { end: (outcome) => Effect.sync(() => void told.push(["end", outcome])) }
      }),
    configure: () => Effect.void,
    queue: {
      read: () => Effect.succeed([]),
      awaitEntry: () => Effect.never,
      acknowledge: () => Effect.void,
      acknowledged: () => 0,
    },
    state: () => ({ queuedBytes: 0, limitBytes: 1, dropped: 0 }),
  })
  return { told, state, layer: Layer.succeed(AuditTrail, service) }
}

/** A service of which only some members are expected to be asked. */
const serviceWith = <I, S extends object>(tag: Context.Key<I, S>, members: Partial<S>): Layer.Layer<I> =>
  Layer.succeed(
    tag,
    new Proxy<S>({} as S, {
      get: (_target, name) =>
        members[name as keyof S] ?? (() => Effect.die(new Error(`Nobody should ask for ${String(name)}`))),
    }),
  )

const summary = (told: ReturnType<typeof memoryTrail>["told"]) =>
  told.map(([how, fact]) => `${how} ${fact.action} ${fact.outcome} ${fact.status}`)

describe("the HTTP interface", () => {
  it.effect("gives a call that changes something its place before it runs, and its entry before it is answered", () =>
    Effect.gen(function*() {
      const { layer, told } = memoryTrail()
      const cameras = serviceWith(Cameras, {
        remove: () => {
          assert.deepStrictEqual(summary(told), ["intent camera.deleteCamera success null"])
          return Effect.fail(new CameraNotFound({ id: cameraId }))
        },
      })
      const call = yield* webHandler({}, Layer.merge(layer, cameras))
      const answer = yield* call(camera, { method: "DELETE", token: "admin", headers: { "user-agent": "test/1" } })
      assert.strictEqual(answer.status, 404)
      assert.deepStrictEqual(summary(told).slice(1), ["end camera.deleteCamera failure 404"])
      const [, fact] = told[1]!
      assert.deepStrictEqual(fact.actor, { kind: "user", id: userId, name: "admin", sessionId: user })
      assert.deepStrictEqual(fact.resource, { kind: "camera", id: cameraId })
      assert.deepStrictEqual([fact.userAgent, fact.origin], ["test/1", "server"])
      assert.strictEqual(fact.traceId, answer.headers.get("x-trace-id"))
    }))

  it.effect("records who was refused if they showed a token, and nobody who showed none", () =>
    Effect.gen(function*() {
      const { layer, told } = memoryTrail()
      const call = yield* webHandler({}, layer)
      assert.strictEqual((yield* call(camera, { method: "DELETE" })).status, 401)
      assert.strictEqual((yield* call("/auth/api/v1/audit")).status, 401)
      assert.deepStrictEqual(told, [])
      assert.strictEqual((yield* call(camera, { method: "DELETE", token: "stolen" })).status, 401)
      assert.strictEqual((yield* call("/auth/api/v1/audit", { token: "viewer" })).status, 403)
      assert.strictEqual((yield* call("/auth/api/v1/audit/settings", { method: "PUT", token: "operator" })).status, 403)
      assert.deepStrictEqual(summary(told), [
        "note camera.deleteCamera refused 401",
        "note audit.list refused 403",
        "note audit.updateSettings refused 403",
      ])
      assert.deepStrictEqual(told.map(([, fact]) => fact.actor.name), [null, "viewer", "operator"])
      assert.notInclude(JSON.stringify(told), "stolen")
    }))

  it.effect("records sign-ins with the name that was tried, and never a password", () =>
    Effect.gen(function*() {
      const { layer, told } = memoryTrail()
      const call = yield* webHandler(
        {},
        Layer.merge(layer, authWith({ login: () => Effect.fail(new InvalidCredentials()) })),
      )
      const body = JSON.stringify({ username: "mallory", password: "correct horse" })
      const headers = { "content-type": "application/json" }
      assert.strictEqual((yield* call("/auth/api/v1/auth/login", { method: "POST", headers, body })).status, 401)
      assert.deepStrictEqual(summary(told), ["note auth.login refused 401"])
      assert.deepStrictEqual(told[0]![1].detail, { username: "mallory" })
      assert.notInclude(JSON.stringify(told), "horse")
    }))

  it.effect("with a full log refuses what changes something and who signs in, and goes on to answer what reads", () =>
    Effect.gen(function*() {
      const { layer, state, told } = memoryTrail()
      const settings = { retentionDays: 1, recordSignIns: true, recordViews: true, recordRefusals: true, version: 1 }
      const log = serviceWith(AuditLog, { settings: () => Effect.succeed(settings) })
      const call = yield* webHandler({}, Layer.mergeAll(layer, log))
      state.full = true
      const body = JSON.stringify({ username: "a", password: "b" })
      for (
        const refused of [
          yield* call(camera, { method: "DELETE", token: "admin" }),
          yield* call("/auth/api/v1/auth/login", {
            method: "POST",
            headers: { "content-type": "application/json" },
            body,
          }),
        ]
      ) {
        assert.strictEqual(refused.status, 503)
        assert.strictEqual((yield* json(refused))["code"], "audit_unavailable")
        assert.isNotNull(refused.headers.get("retry-after"))
      }
      assert.strictEqual((yield* call("/auth/api/v1/audit/settings", { token: "admin" })).status, 200)
      assert.strictEqual((yield* call("/health")).status, 200)
      assert.deepStrictEqual(told, [])
    }))

  it.effect("says of a call whose caller went away that it was interrupted", () =>
    Effect.gen(function*() {
      const { layer, told } = memoryTrail()
      const begun = yield* Deferred.make<void>()
      const cameras = serviceWith(Cameras, {
        remove: () => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never),
      })
      const call = yield* webHandler({}, Layer.merge(layer, cameras))
      const hangUp = new AbortController()
      yield* Effect.forkChild(
        Effect.ignoreCause(call(camera, { method: "DELETE", token: "admin", signal: hangUp.signal })),
      )
      yield* Deferred.await(begun)
      hangUp.abort()
      while (told.length < 2) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      assert.deepStrictEqual(summary(told)[1], "end camera.deleteCamera failure null")
      assert.match(String(told[1]![1].detail["interrupted"]), /did not wait/)
    }))

  it.effect("records an export with its filter, and streams it as JSON and as CSV", () =>
    Effect.gen(function*() {
      const { layer, told } = memoryTrail()
      const entry: AuditEntry = {
        id: cameraId,
        sequence: 1,
        time: 0,
        nodeId: NodeId.make(cameraId),
        action: "auth.login",
        outcome: "success",
        actor: { kind: "user", id: "u", name: "=1+1", sessionId: null },
        address: "",
        userAgent: "",
        resource: null,
        status: null,
        traceId: null,
        origin: "server",
        detail: {},
        previousHash: "0".repeat(64),
        hash: "1".repeat(64),
      }
      const log = serviceWith(AuditLog, {
        export: (filter) =>
          Effect.succeed(Stream.fromIterable(filter.text === "none" ? [[]] : [[entry], [entry, entry]])),
      })
      const call = yield* webHandler({}, Layer.mergeAll(layer, log))
      const path = "/auth/api/v1/audit/export"
      const answer = yield* call(`${path}/json?action=auth.`, { token: "admin" })
      assert.match(answer.headers.get("content-disposition") ?? "", /^attachment; filename="audit-.*\.json"$/)
      const shown = { ...entry, time: "1970-01-01T00:00:00.000Z" }
      assert.deepStrictEqual(JSON.parse(yield* text(answer)), [shown, shown, shown])
      assert.deepStrictEqual(JSON.parse(yield* text(yield* call(`${path}/json?text=none`, { token: "admin" }))), [])
      const csv = (yield* text(yield* call(`${path}/csv`, { token: "admin" }))).split("\r\n")
      assert.strictEqual(csv.length, 5)
      assert.include(csv[1], "\"'=1+1\"")
      assert.strictEqual((yield* call(`${path}/csv`, { token: "viewer" })).status, 403)
      assert.deepStrictEqual(summary(told), [
        "record audit.exportJson success 200",
        "record audit.exportJson success 200",
        "record audit.exportCsv success 200",
        "note audit.exportCsv refused 403",
      ])
      assert.strictEqual(told[0]![1].detail["filter"], "{\"action\":\"auth.\"}")
    }))

  it("takes every method but GET for a change, but for these", () => {
    const found: Record<string, AuditClass> = {}
    HttpApi.reflect(Api, {
      onGroup: () => {},
      onEndpoint: ({ endpoint, group, mergedAnnotations }) => {
        const kind = Option.getOrNull(Context.getOption(mergedAnnotations, Audited))
        if (kind !== null) found[`${endpoint.method} ${group.identifier}.${endpoint.identifier}`] = kind
      },
    })
    assert.deepStrictEqual(found, {
      "POST auth.login": "signIn",
      "POST auth.refresh": "none",
      "POST bffFederation.federatedReplay": "view",
      "POST bffLive.federatedLive": "view",
      "POST bffLive.peerLive": "view",
      "POST federationRtsp.openRtspLine": "none",
      "POST bffWhep.relayWhep": "none",
      "POST bffTalk.offerFederatedTalk": "none",
      "POST bffTalk.offerPeerTalk": "none",
      "POST bffTalk.renewPeerTalk": "none",
      "DELETE bffWhep.relayWhepClose": "none",
      "POST bffWhep.peerWhep": "view",
      "POST bffWhep.renewPeerWhep": "none",
      "DELETE bffWhep.closePeerWhep": "none",
      "POST federationRtsp.feedRtspLine": "none",
      "POST auth.logout": "signOut",
      "POST auth.heartbeat": "none",
      "GET federationFailover.configBundle": "export",
      "GET audit.exportCsv": "export",
      "GET audit.exportJson": "export",
      "POST audit.claim": "none",
      "POST federationFailover.voteOnControl": "none",
      "POST federationFailover.releaseControl": "none",
      "POST federationRecordback.pushSegment": "none",
      "POST permission.check": "none",
      "POST camera.refreshStreamToken": "none",
      "POST cameraWebRtc.whepOpen": "none",
      "PATCH cameraWebRtc.whepTrickle": "none",
      "DELETE cameraWebRtc.whepClose": "none",
      "GET cameraBackup.exportCameras": "export",
      "POST cameraJob.planImport": "none",
      "POST cameraMobile.publishMobile": "none",
      "PATCH cameraMobile.trickleMobile": "none",
      "DELETE cameraMobile.endMobile": "none",
      "POST cameraDevice.discoverCameras": "none",
      "POST cameraTalk.offerTalk": "none",
      "POST replay.uri": "view",
      "POST authFederation.revealPairing": "none",
      "POST authFederation.refreshPeer": "none",
    })
  })
})
