/** The licence on a real PostgreSQL, with a vendor on loopback: every operation, every state, and recording that goes on in all of them. */
import { makeLicensed } from "#actors/behaviour/auth-license.ts"
import * as AuthPresence from "#actors/behaviour/auth-presence.ts"
import * as CameraActivation from "#actors/behaviour/camera-activation.ts"
import * as CameraEntity from "#actors/behaviour/camera-entity.ts"
import * as CameraRecovery from "#actors/behaviour/camera-recovery.ts"
import * as CameraBehaviour from "#actors/behaviour/camera.ts"
import * as LicenseKnown from "#actors/behaviour/license-known.ts"
import * as LicenseBehaviour from "#actors/behaviour/license.ts"
import * as RecordEntity from "#actors/behaviour/record-entity.ts"
import * as RecordIndex from "#actors/behaviour/record-index.ts"
import * as RecordLedgerBehaviour from "#actors/behaviour/record-ledger.ts"
import * as RecordPlans from "#actors/behaviour/record-plan.ts"
import * as RecordBehaviour from "#actors/behaviour/record.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { Events } from "#actors/protocol/event.ts"
import { CaptureHolds } from "#actors/protocol/federation-hold.ts"
import { HardwareFacts, License, LicenseGate } from "#actors/protocol/license.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordRebuildStore } from "#actors/store/record-rebuild.ts"
import { RecordStore } from "#actors/store/record.ts"
import * as Identity from "#cluster/identity.ts"
import * as Cluster from "#cluster/sharding.ts"
import * as Vaults from "#cluster/vault.ts"
import { DeviceDrivers } from "#media/device.ts"
import { deviceDrivers } from "#media/drivers/registry.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import { transportCertificate } from "#ops/node.ts"
import type { LicenseState } from "#schema/license.ts"
import { uuid7 } from "#schema/uuid.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, type Redacted, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { postgresLayer } from "./harness/postgres.ts"
import { json, webHandler } from "./http-fixtures.ts"
import { claims, dayMs, sign, signedByItself, vendorKey, vendorServer } from "./license-vendor.ts"
import { fakeMedia } from "./record-fixtures.ts"
import { eventually, front } from "./record-node.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-license-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** A member of an answer, by its path. */
const at = (value: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>((inner, name) => (inner as Record<string | number, unknown>)[name], value)

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly headers: Headers
}

/** A node's control layer with a licence, and its HTTP interface; the database is new each time, the server is shared. */
const startNode = Effect.fnUntraced(function*(options: {
  readonly url: Redacted.Redacted
  readonly dataFolder: string
  readonly keys: string
  readonly server: string | null
  readonly machine: { id: string }
}) {
  const media = fakeMedia()
  const published: Array<string> = []
  mkdirSync(options.dataFolder, { recursive: true })
  const license = { keys: options.keys, server: options.server, dataFolder: options.dataFolder }
  const hardware = Layer.succeed(HardwareFacts, {
    read: Effect.sync(() => [
      { name: "machine" as const, values: [options.machine.id], detail: "1 value" },
      { name: "board" as const, values: [], detail: "not there" },
      { name: "network" as const, values: [`${options.machine.id}:net`], detail: "1 value" },
    ]),
  })
  const services = Layer.mergeAll(
    CameraEntity.layer,
    RecordEntity.layer,
    CameraActivation.layer.pipe(Layer.provide(CaptureHolds.layer)),
  ).pipe(
    Layer.provideMerge(LicenseBehaviour.layer(license)),
    Layer.provideMerge(RecordBehaviour.layer),
    Layer.provideMerge(CameraBehaviour.layer.pipe(Layer.provide(Layer.succeed(DeviceDrivers, deviceDrivers)))),
    Layer.provideMerge(RecordIndex.layer),
    Layer.provideMerge(Layer.mergeAll(RecordPlans.layer, RecordLedgerBehaviour.layer)),
    Layer.provideMerge(CameraRecovery.layer),
    Layer.provideMerge(
      Layer.mergeAll(CameraStore.layer, RecordStore.layer, RecordLedgerStore.layer, RecordRebuildStore.layer),
    ),
    Layer.provideMerge(Layer.mergeAll(AuthPresence.layer, LicenseKnown.layer(license).pipe(Layer.provide(hardware)))),
    Layer.provideMerge(Cluster.layer({
      name: "test",
      host: "127.0.0.1",
      port: 0,
      dataFolder: options.dataFolder,
      joinSecret: null,
      certificate: transportCertificate,
    })),
    Layer.provideMerge(Database.layer({ url: options.url, applicationName: "test", maxConnections: 8 })),
    Layer.provideMerge(media.layer),
    Layer.provideMerge(Layer.succeed(Events, {
      publish: (draft) => Effect.sync(() => void published.push(`${draft.type} ${draft.subject}`)),
    })),
    Layer.provideMerge(Identity.layer({ dataFolder: options.dataFolder })),
    Layer.provideMerge(Vaults.layer({ dataFolder: options.dataFolder, masterKey: null })),
    Layer.provide(NodeFileSystem.layer),
  )
  const context = yield* Layer.build(services)
  const handler = yield* webHandler({}, Layer.succeed(License, Context.get(context, License)))
  const call = (method: string, path: string, body?: unknown, token = "admin") =>
    Effect.gen(function*() {
      const response = yield* handler(`/license/api/v1${path}`, {
        method,
        token,
        headers: { "content-type": "application/json" },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      return { status: response.status, headers: response.headers, body: yield* json(response) } satisfies Answer
    })
  return {
    media,
    published,
    call,
    cameras: Context.get(context, Cameras),
    recordings: Context.get(context, Recordings),
    gate: Context.get(context, LicenseGate as never) as (typeof LicenseGate)["Service"],
    known: Context.get(context, LicenseKnown.LicenseKnown),
    sql: Context.get(context, SqlClient.SqlClient),
    licensed: yield* Effect.provide(makeLicensed, context),
  }
})

const world = Effect.gen(function*() {
  const data = yield* folder
  const key = yield* vendorKey("2026")
  const keys = join(data, "vendor.json")
  writeFileSync(keys, JSON.stringify({ keys: [key.jwk] }))
  const vendor = yield* vendorServer(key, () => Date.now())
  const postgres = yield* Layer.build(postgresLayer({ dataFolder: data, copies: join(data, "copies") }))
  const url = yield* Context.get(postgres, EmbeddedPostgres).url
  const machine = { id: "3f6c0e7e2a" }
  const node = yield* startNode({ url, dataFolder: join(data, "node"), keys, server: vendor.url, machine })
  const licence = (change: Record<string, unknown> = {}, header: Record<string, unknown> = {}) =>
    sign(key, claims(Date.now(), change), header)
  /** Puts a text where the licence stands, as somebody with access to the database could. */
  const put = (text: string) => Effect.andThen(node.sql`UPDATE license SET license_text = ${text}`, node.known.read)
  const clear = Effect.andThen(
    Effect.andThen(node.sql`DELETE FROM license`, node.sql`DELETE FROM license_history`),
    node.known.read,
  )
  return { ...node, data, key, keys, vendor, machine, licence, put, clear, url }
})

const live = (name: string, run: () => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => run().pipe(Effect.provide(Logger.layer([]))), 120_000)

live(
  "a licence is asked for, installed, checked and given back; its limits hold, and recording goes on in every state",
  () =>
    Effect.gen(function*() {
      const { call, cameras, clear, gate, known, licence, licensed, machine, media, published, put, recordings, sql } =
        yield* world

      // Without a licence everything works.
      const none = yield* call("GET", "/license")
      assert.strictEqual(none.status, 200)
      assert.strictEqual(none.body["license"], null)
      assert.deepStrictEqual(none.body["vendorKeys"], ["2026"])
      assert.deepInclude(none.body["status"] as object, { state: "none", restricted: false, limits: null })
      for (
        const [method, path] of [["DELETE", "/license"], ["POST", "/license/verify-now"], ["DELETE", "/license/key"], [
          "POST",
          "/license/cloud/verify",
        ]] as const
      ) {
        const absent = yield* call(method, path)
        assert.deepStrictEqual([absent.status, absent.body["code"]], [409, "license_absent"], path)
      }
      const camera = yield* cameras.create(front)
      const channelId = camera.channels[0]!.id
      const recording = yield* recordings.create(
        { channelId, mode: "continuous", enabled: true, retentionDays: 1 } as never,
      )
      const recorded = () => [...media.assignments.values()].filter((one) => one.recording !== null).length
      yield* eventually("the recording", Effect.sync(recorded), (count) => count === 1)

      // The request, and the licence that answers it.
      const request = yield* call("GET", "/license/request-file")
      assert.match(request.headers.get("content-disposition")!, /^attachment; filename="nightjar-.*\.json"$/)
      assert.isTrue(signedByItself(request.body))
      assert.isFalse(signedByItself({ ...request.body, hardwareId: "nj1.m:aa" }))
      assert.deepStrictEqual(request.body["usage"], { channels: 1 })
      const { hardwareId } = (yield* call("GET", "/license/hardware-id")).body
      assert.strictEqual(request.body["hardwareId"], hardwareId)
      assert.notInclude(JSON.stringify(request.body), machine.id)

      const activate = (license: string) => call("POST", "/license/activate", { license })
      const ended = { notBefore: "2020-01-01T00:00:00Z", notAfter: "2021-01-01T00:00:00Z" }
      const refused: ReadonlyArray<readonly [string, string]> = [
        [yield* licence({ hardwareId: "nj1.m:aaaa.n:bbbb" }), "otherHardware"],
        [yield* licence(ended), "over"],
        [`${(yield* licence()).slice(0, -6)}AAAAAA`, "forged"],
        [yield* licence({}, { kid: "unknown" }), "unknownKey"],
        [yield* licence({ customer: 7 }), "malformed"],
      ]
      for (const [text, reason] of refused) {
        const answer = yield* activate(text)
        assert.deepStrictEqual([answer.status, answer.body["code"], answer.body["reason"]], [
          422,
          "license_rejected",
          reason,
        ])
      }
      assert.strictEqual((yield* activate("not a licence")).status, 400)
      assert.strictEqual(
        (yield* call("POST", "/license/activate", { license: yield* licence() }, "viewer")).status,
        403,
      )
      assert.strictEqual((yield* call("GET", "/license/status")).body["state"], "none")

      const good = yield* licence({ channels: 2, hardwareId })
      const installed = yield* activate(good)
      assert.strictEqual(installed.status, 200, JSON.stringify(installed.body))
      assert.deepInclude(installed.body["license"] as object, { licenseId: "L-1", mode: "offline", hardwareId })
      const status = (yield* call("GET", "/license/status")).body
      assert.deepInclude(status, { state: "valid", restricted: false, cloud: null })
      assert.deepStrictEqual(status["usage"], { channels: 1, sessions: 0 })
      assert.deepInclude(status["hardware"] as object, { matches: true, matching: 3, named: 3, needed: 2 })

      // The limit holds, and says itself.
      yield* cameras.create({ ...front, name: "Second" })
      const third = yield* Effect.flip(cameras.create({ ...front, name: "Third" }))
      assert.strictEqual(third._tag, "LicenseRestricted")
      assert.include(third.message, "covers 2 channels; 2 are there")
      assert.strictEqual((yield* Effect.flip(cameras.addChannel(camera.id, {})))._tag, "LicenseRestricted")
      yield* gate.maySignIn(Effect.succeed(2))
      assert.include((yield* Effect.flip(gate.maySignIn(Effect.succeed(3)))).message, "covers 3 people")

      // Every state, by the licence that stands in the database and by the machine; what records is never touched.
      const before = { calls: [...media.calls], recorded: recorded() }
      const inDays = (days: number) => new Date(Date.now() + days * dayMs).toISOString()
      const restrictedStates: Array<LicenseState> = []
      const become = Effect.fnUntraced(function*(state: LicenseState, restricted: boolean) {
        const now = (yield* call("GET", "/license/status")).body
        assert.strictEqual(now["state"], state, String(now["reason"]))
        assert.strictEqual(now["restricted"], restricted)
        const attempt = yield* Effect.exit(recordings.create({ channelId, role: "sub", mode: "continuous" } as never))
        if (restricted) {
          restrictedStates.push(state)
          assert.strictEqual(attempt._tag, "Failure")
          assert.include(JSON.stringify(attempt), "LicenseRestricted")
        } else {
          assert.strictEqual(attempt._tag, "Success")
          if (attempt._tag === "Success") yield* recordings.remove(attempt.value.id, null)
        }
        // What is there can be changed, switched and watched; and it records.
        assert.strictEqual((yield* recordings.get(recording.id)).enabled, true)
        yield* eventually("the recording goes on", Effect.sync(recorded), (count) => count === before.recorded)
        assert.isFalse(
          media.calls.slice(before.calls.length).includes(`withdraw ${camera.channels[0]!.streams[0]!.id}`),
        )
      })
      yield* become("valid", false)
      yield* put(yield* licence({ notAfter: inDays(5) }))
      yield* become("expiring", false)
      yield* put(yield* licence({ notAfter: inDays(-0.5) }))
      yield* become("grace", false)
      yield* put(yield* licence(ended))
      yield* become("expired", true)
      yield* put(yield* licence({ notBefore: inDays(1) }))
      yield* become("pendingActivation", false)
      yield* put(`${good.slice(0, -6)}AAAAAA`)
      yield* become("invalid", true)
      yield* put(good)
      machine.id = "another"
      const moved = yield* call("POST", "/license/verify-now")
      assert.deepInclude(moved.body["hardware"] as object, { matches: false, matching: 1 })
      yield* become("invalid", true)
      machine.id = "3f6c0e7e2a"
      yield* call("POST", "/license/verify-now")
      yield* become("valid", false)
      // The clock was already two hours further.
      yield* known.store.resetTime(Date.now() + 7_200_000)
      yield* become("restricted", true)
      assert.strictEqual(at((yield* call("GET", "/license/status")).body, "clock", "setBack"), true)
      // The mark is in this node's memory too: a database that is set back changes nothing.
      yield* known.store.resetTime(Date.now())
      yield* become("restricted", true)
      yield* activate(yield* licence({ licenseId: "L-clock", issuedAt: new Date().toISOString(), resetClock: true }))
      yield* become("valid", false)
      assert.deepStrictEqual([...new Set(restrictedStates)].toSorted(), ["expired", "invalid", "restricted"])
      for (const state of ["valid", "grace", "expired", "invalid", "restricted"]) {
        assert.include(published, `license.state.changed ${state}`)
      }

      // Given back: a receipt, free again, and never this one again.
      const receipt = yield* call("DELETE", "/license")
      assert.strictEqual(receipt.body["licenseId"], "L-clock")
      assert.isTrue(signedByItself(receipt.body))
      yield* become("released", false)
      const again = yield* activate(yield* licence({ licenseId: "L-clock" }))
      assert.strictEqual(again.body["reason"], "releasedBefore")
      yield* clear
      yield* become("none", false)

      // Who is signed in.
      const nobody = yield* call("GET", "/sessions")
      assert.deepStrictEqual(nobody.body, { items: [], nextCursor: null, inUse: 0, limit: null })
      yield* activate(yield* licence({ licenseId: "L-2", sessions: 2 }))
      const [person, gone] = [yield* uuid7, yield* uuid7]
      yield* sql`
      INSERT INTO auth_user (id, username, username_key, password_hash, created_at, password_changed_at)
      VALUES (${person}, 'ann', 'ann', 'x', now(), now())`
      const sessions = [yield* uuid7, yield* uuid7]
      for (const [n, id] of [...sessions, gone].entries()) {
        const seen = new Date(Date.now() - (id === gone ? 3_600_000 : 0))
        yield* sql`
        INSERT INTO auth_session (id, user_id, created_at, last_seen_at, expires_at, address, user_agent)
        VALUES (${id}, ${person}, ${new Date(Date.now() - 60_000 + n * 1000)}, ${seen}, ${new Date(Date.now() + dayMs)},
          '192.0.2.7', 'Firefox')`
      }
      // At the sign-in: everybody who is covered is there, but an administrator gets in.
      assert.include((yield* Effect.flip(licensed({ roles: ["viewer"] }))).message, "covers 2 people")
      yield* licensed({ roles: ["viewer", "admin"] })
      const first = yield* call("GET", "/sessions?limit=1")
      assert.deepInclude(first.body, { inUse: 2, limit: 2 })
      assert.deepInclude(at(first.body, "items", 0) as object, {
        sessionId: sessions[1],
        username: "ann",
        address: "192.0.2.7",
      })
      assert.isString(at(first.body, "items", 0, "lastHeartbeat"))
      const rest = yield* call("GET", `/sessions?limit=1&cursor=${first.body["nextCursor"]}`)
      assert.deepStrictEqual([at(rest.body, "items", 0, "sessionId"), rest.body["nextCursor"]], [sessions[0], null])
      assert.strictEqual((yield* call("GET", "/sessions?cursor=nonsense")).status, 400)
    }),
)

live("activates online, holds a lease by a key, and tells what is wrong with the server", () =>
  Effect.gen(function*() {
    const { call, clear, data, key, keys, known, licence, machine, sql, url, vendor } = yield* world

    // A code becomes a licence that stands alone.
    const wrong = yield* call("POST", "/license/activate", { activationCode: "CODE-9999" })
    assert.deepStrictEqual([wrong.status, wrong.body["code"], wrong.body["vendorCode"]], [
      409,
      "license_refused",
      "unknown_code",
    ])
    assert.include(String(wrong.body["detail"]), "nobody bought this")
    const online = yield* call("POST", "/license/activate", { activationCode: "CODE-1234" })
    assert.deepInclude(online.body["license"] as object, { licenseId: "S-1", mode: "online", verifyDays: null })
    assert.strictEqual((yield* call("POST", "/license/cloud/verify")).body["wanted"], "lease")
    assert.strictEqual((yield* call("DELETE", "/license")).status, 200)
    yield* clear

    // A server in trouble changes nothing.
    const trouble = Effect.fnUntraced(function*(mood: Partial<typeof vendor.mood>, status: number, code: string) {
      const calm = { ...vendor.mood }
      const heard = vendor.heard.length
      Object.assign(vendor.mood, mood)
      const answer = yield* call("POST", "/license/key", { key: "KEY-1234-ABCD" })
      Object.assign(vendor.mood, calm)
      assert.deepStrictEqual([answer.status, answer.body["code"]], [status, code], JSON.stringify(answer.body))
      assert.strictEqual((yield* call("GET", "/license")).body["keyHint"], null)
      return vendor.heard.length - heard
    })
    assert.strictEqual(yield* trouble({ answer: { status: 500, body: "" } }, 502, "license_server_faulty"), 3)
    assert.strictEqual(yield* trouble({ answer: { status: 200, body: "{}" } }, 502, "license_server_faulty"), 1)
    yield* trouble({ answer: { status: 200, body: `"${"x".repeat(100_000)}"` } }, 502, "license_server_faulty")
    yield* trouble({ answer: { status: 302, body: "" } }, 502, "license_server_faulty")
    yield* trouble({ answer: { status: 418, body: "tea" } }, 502, "license_server_faulty")
    const stranger = yield* vendorKey("2026")
    const foreign = yield* sign(stranger, claims(Date.now()))
    yield* trouble({ answer: { status: 200, body: JSON.stringify({ license: foreign }) } }, 422, "license_rejected")

    // A key waits for approval, then is a lease.
    vendor.mood.pending = true
    const waiting = yield* call("POST", "/license/key", { key: "KEY-1234-ABCD" })
    assert.strictEqual(waiting.body["keyHint"], "ABCD")
    assert.strictEqual(at(waiting.body, "status", "state"), "pendingActivation")
    assert.notInclude(JSON.stringify(waiting.body), "KEY-1234")
    assert.notInclude(JSON.stringify(yield* sql`SELECT * FROM license`), "KEY-1234")
    assert.strictEqual(
      (yield* call("POST", "/license/key", { key: "KEY-1234-ABCD" })).body["code"],
      "license_key_present",
    )
    vendor.mood.pending = false
    const leased = yield* call("POST", "/license/cloud/verify")
    assert.strictEqual(leased.body["state"], "valid", JSON.stringify(leased.body))
    assert.isNotNull(at(leased.body, "cloud", "confirmBy"))

    // Confirmed, suspended, revoked: only by a signed word that answers our question.
    assert.strictEqual((yield* call("POST", "/license/cloud/verify")).body["state"], "valid")
    assert.notStrictEqual(vendor.heard.at(-1)!.body["nonce"], vendor.heard.at(-2)!.body["nonce"])
    vendor.mood.nonce = "an old answer"
    const replayed = yield* call("POST", "/license/cloud/verify")
    assert.deepStrictEqual([replayed.status, replayed.body["reason"]], [422, "forged"])
    vendor.mood.nonce = null
    vendor.mood.answer = { status: 403, body: JSON.stringify({ code: "revoked", message: "says who" }) }
    assert.strictEqual((yield* call("POST", "/license/cloud/verify")).status, 409)
    const unmoved = (yield* call("GET", "/license/status")).body
    assert.strictEqual(unmoved["state"], "valid")
    assert.include(String(at(unmoved, "cloud", "lastFailure", "message")), "says who")
    vendor.mood.answer = null
    for (const [said, state] of [["suspended", "restricted"], ["revoked", "invalid"], ["active", "valid"]] as const) {
      vendor.mood.state = said
      assert.strictEqual((yield* call("POST", "/license/cloud/verify")).body["state"], state)
    }
    // The vendor's signed time ends a wrong mark.
    yield* known.store.resetTime(Date.now() + 90 * dayMs)
    assert.strictEqual((yield* call("GET", "/license/status")).body["state"], "restricted")
    assert.strictEqual((yield* call("POST", "/license/cloud/verify")).body["state"], "valid")

    // Released with the server's knowledge, or not at all.
    vendor.mood.answer = { status: 503, body: "" }
    assert.strictEqual((yield* call("DELETE", "/license/key")).status, 502)
    assert.strictEqual((yield* call("GET", "/license")).body["keyHint"], "ABCD")
    vendor.mood.answer = null
    const released = yield* call("DELETE", "/license/key")
    assert.isTrue(signedByItself(released.body))
    const free = (yield* call("GET", "/license")).body
    assert.deepStrictEqual([free["keyHint"], free["license"], at(free, "status", "state")], [null, null, "released"])

    // The mark on the disk survives a new database; a server that is not there is told apart from one that is not set.
    const marked = JSON.parse(readFileSync(join(data, "node", "license-time.json"), "utf8")) as { highWaterMs: number }
    assert.isAbove(marked.highWaterMs, Date.now() - 600_000)
    writeFileSync(
      join(data, "node", "license-time.json"),
      JSON.stringify({ version: 1, highWaterMs: Date.now() + 7_200_000 }),
    )
    const other = yield* startNode({ url, dataFolder: join(data, "node"), keys, server: "http://127.0.0.1:1", machine })
    yield* other.call("POST", "/license/activate", { license: yield* licence({ licenseId: "L-3" }) })
    assert.strictEqual((yield* other.call("GET", "/license/status")).body["state"], "restricted")
    const away = yield* other.call("POST", "/license/activate", { activationCode: "CODE-1234" })
    assert.deepStrictEqual([away.status, away.body["code"], away.body["reason"]], [
      503,
      "license_server_unreachable",
      "connection",
    ])
    const unset = yield* startNode({ url, dataFolder: join(data, "third"), keys, server: null, machine })
    assert.strictEqual((yield* unset.call("POST", "/license/key", { key: "KEY-1234-ABCD" })).status, 501)
    assert.strictEqual(key.kid, "2026")
  }))
