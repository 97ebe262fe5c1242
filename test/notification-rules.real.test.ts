/** Popup rules on a real PostgreSQL: the operations, two nodes that tell each event once, retries, switched-off webhooks, Web Push. */
import * as Evaluator from "#actors/behaviour/notification-evaluator.ts"
import * as PushBehaviour from "#actors/behaviour/notification-push.ts"
import * as Rules from "#actors/behaviour/notification-rules.ts"
import * as Sender from "#actors/behaviour/notification-sender.ts"
import { Grants } from "#actors/protocol/auth-grants.ts"
import { Mailer } from "#actors/protocol/auth-smtp.ts"
import { Roles, Users } from "#actors/protocol/auth-users.ts"
import { EventLog, Events } from "#actors/protocol/event.ts"
import { PopupRules, Push } from "#actors/protocol/notification-rules.ts"
import { ResourceGroups } from "#actors/protocol/permission.ts"
import { EventStore } from "#actors/store/event.ts"
import * as Identity from "#cluster/identity.ts"
import * as Vaults from "#cluster/vault.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import { UserNotFound } from "#schema/auth-users.ts"
import { type CameraId, NodeId, UserId } from "#schema/common.ts"
import type { EventDraft, Severity } from "#schema/event.ts"
import { ResourceGroupNotFound } from "#schema/permission-groups.ts"
import { builtInRoles } from "#schema/permission.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Logger, type Redacted, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { mkdirSync, mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Webhook } from "standardwebhooks"
import { postgresLayer } from "./harness/postgres.ts"
import { json, userId, webHandler } from "./http-fixtures.ts"
import { browser, receiver } from "./notification-receiver.ts"
import { eventually } from "./record-node.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-popups-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** A member of an answer, by its path. */
const at = (value: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>((inner, name) => (inner as Record<string | number, unknown>)[name], value)

const guard = UserId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a11")
const outsider = UserId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a12")
const group = "0190163d-8694-7395-8ad4-5b8a3f3d0b01"
const inGroup = "0190163d-8694-7395-8ad4-5b8a3f3d0c01" as CameraId
const elsewhere = "0190163d-8694-7395-8ad4-5b8a3f3d0c02" as CameraId

const person = (id: UserId, username: string) => ({
  id,
  username,
  email: `${username}@example.com`,
  enabled: true,
})
/** Everybody there is: the guard may see cameras, the outsider nothing, the caller of the tests everything. */
const everybody = [person(guard, "guard"), person(outsider, "outsider"), person(userId, "admin")]
const grantsOf: Record<string, ReadonlyArray<string>> = {
  guard: builtInRoles.viewer.permissions,
  outsider: [],
  admin: ["*"],
}

/** Services of other slices, as far as popup rules ask them. */
const people = Layer.mergeAll(
  Layer.succeed(
    Users,
    {
      get: (id: UserId) => {
        const found = everybody.find((one) => one.id === id)
        return found === undefined ? Effect.fail(new UserNotFound({ userId: id })) : Effect.succeed(found)
      },
    } as unknown as Users["Service"],
  ),
  Layer.succeed(
    Roles,
    {
      users: (name: string) =>
        Effect.succeed({ items: name === "watch" ? everybody.slice(0, 2) : [], nextCursor: null }),
    } as unknown as Roles["Service"],
  ),
  Layer.succeed(
    Grants,
    {
      holder: (username: string) =>
        Effect.succeed({
          username,
          enabled: true,
          roles: [],
          grants: [{ role: "x", permissions: grantsOf[username] ?? [], resources: "all" }],
        }),
    } as unknown as Grants["Service"],
  ),
  Layer.succeed(
    ResourceGroups,
    {
      get: (id: string) =>
        id === group ? Effect.succeed({ id }) : Effect.fail(new ResourceGroupNotFound({ groupId: id })),
      members: () => Effect.succeed({ items: [{ kind: "camera", id: inGroup }], nextCursor: null }),
      list: () => Effect.succeed({ items: [], nextCursor: null }),
    } as unknown as ResourceGroups["Service"],
  ),
)

interface World {
  readonly published: Array<EventDraft>
  readonly mails: Array<string>
}

/** A node's part of it. */
const startNode = Effect.fnUntraced(function*(options: {
  readonly url: Redacted.Redacted
  readonly dataFolder: string
  readonly world: World
}) {
  mkdirSync(options.dataFolder, { recursive: true })
  const log = Layer.effect(
    EventLog,
    Effect.map(EventStore, (store) =>
      ({
        after: store.after,
        latest: () => Effect.map(store.newest(1), ([newest]) => newest?.position ?? 0),
        find: store.find,
        follow: () => Effect.die("nobody follows here"),
      }) as EventLog["Service"]),
  )
  const services = Layer.mergeAll(Evaluator.layer, Rules.layer).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        Sender.layer({ pushNetwork: "any", pushContact: "mailto:ops@example.com", retriesMs: [50, 50] }),
        PushBehaviour.layer({ insecure: true }),
      ),
    ),
    Layer.provideMerge(log),
    Layer.provideMerge(EventStore.layer),
    Layer.provideMerge(people),
    Layer.provideMerge(Layer.mergeAll(
      Layer.succeed(Mailer, {
        send: ({ subject, to }) => Effect.sync(() => void options.world.mails.push(`${to.join()} ${subject}`)),
      }),
      Layer.succeed(Events, { publish: (draft) => Effect.sync(() => void options.world.published.push(draft)) }),
    )),
    Layer.provideMerge(Database.layer({ url: options.url, applicationName: "test", maxConnections: 4 })),
    Layer.provideMerge(Identity.layer({ dataFolder: options.dataFolder })),
    Layer.provideMerge(Vaults.layer({ dataFolder: options.dataFolder, masterKey: null })),
    Layer.provide(NodeFileSystem.layer),
  )
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const context = yield* Layer.buildWithScope(services, scope)
  const handler = yield* webHandler(
    {},
    Layer.mergeAll(
      Layer.succeed(PopupRules, Context.get(context, PopupRules)),
      Layer.succeed(Push, Context.get(context, Push)),
    ),
  )
  const call = (method: string, path: string, body?: unknown, init: { token?: string; ifMatch?: string } = {}) =>
    Effect.gen(function*() {
      const response = yield* handler(`/notification/api/v1${path}`, {
        method,
        token: init.token ?? "admin",
        headers: {
          "content-type": "application/json",
          ...(init.ifMatch === undefined ? {} : { "if-match": init.ifMatch }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      })
      const parsed = response.status === 204 ? {} : yield* json(response)
      return { status: response.status, headers: response.headers, body: parsed }
    })
  return {
    call,
    events: Context.get(context, EventStore),
    sql: Context.get(context, SqlClient.SqlClient),
    end: Scope.close(scope, Exit.void),
  }
})

const world = Effect.gen(function*() {
  const data = yield* folder
  const postgres = yield* Layer.build(postgresLayer({ dataFolder: data, copies: join(data, "copies") }))
  const url = yield* Context.get(postgres, EmbeddedPostgres).url
  const seen: World = { published: [], mails: [] }
  const start = (name: string) => startNode({ url, dataFolder: join(data, name), world: seen })
  const node = yield* start("first")
  const nodeId = NodeId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a01")
  let told = 0
  /** An event in the log. */
  const happen = (camera: CameraId, options: { severity?: Severity; type?: string; time?: number } = {}) =>
    node.events.keep([{
      event: {
        id: `e-${++told}`,
        source: `/nodes/${nodeId}/camera`,
        type: options.type ?? "camera.offline",
        time: options.time ?? Date.now(),
        subject: camera,
        data: { name: "Front", reason: "no answer" },
        nodeId,
        severity: options.severity ?? "critical",
      },
      resource: [`camera:${camera}`],
      audience: null,
      notify: true,
    }], Date.now())
  const logged = (ruleId: unknown) =>
    Effect.map(
      node.call("GET", `/popup-rules/${String(ruleId)}/deliveries?limit=500`),
      ({ body }) => body["items"] as ReadonlyArray<Record<string, unknown>>,
    )
  const settled = (ruleId: unknown, count: number) =>
    eventually(
      `${count} deliveries`,
      logged(ruleId),
      (all) => all.filter((one) => one["state"] !== "waiting").length >= count,
    )
  for (const { id, username } of everybody) {
    yield* node.sql`
      INSERT INTO auth_user (id, username, username_key, password_hash, created_at, password_changed_at)
      VALUES (${id}, ${username}, ${username}, 'x', now(), now())`
  }
  return { ...node, ...seen, start, happen, logged, settled }
})

const live = (name: string, run: () => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => run().pipe(Effect.provide(Logger.layer([]))), 120_000)

live(
  "rules are kept, their secrets shown once; events are told once by two nodes, retried, and logged",
  () =>
    Effect.gen(function*() {
      const { call, happen, logged, mails, published, settled, sql, start } = yield* world
      const hooks = yield* receiver

      // The operations.
      const hook = { kind: "webhook", url: `${hooks.url}/a` }
      const night = {
        name: "Night",
        filter: { types: ["camera.*"], minimumSeverity: "warning", resourceGroups: [group] },
        recipients: { users: [outsider], roles: ["watch"] },
        sound: "alarm",
        channels: [hook, { kind: "inApp" }, { kind: "email", attachPicture: true }],
      }
      const created = yield* call("POST", "/popup-rules", night)
      assert.strictEqual(created.status, 201, JSON.stringify(created.body))
      const { id } = created.body
      assert.strictEqual(created.headers.get("location"), `/notification/api/v1/popup-rules/${String(id)}`)
      assert.strictEqual(created.headers.get("cache-control"), "no-store")
      const secret = String(at(created.body, "newSecrets", 0, "secret"))
      assert.match(secret, /^whsec_[A-Za-z0-9+/]{43}=$/)
      const path = `/popup-rules/${String(id)}`
      const read = yield* call("GET", path)
      assert.notInclude(JSON.stringify(read.body), "whsec_")
      assert.deepInclude(at(read.body, "channels", 0) as object, { url: hook.url, hasSecret: true, disabledAt: null })
      assert.notInclude(JSON.stringify(yield* sql`SELECT * FROM notification_webhook`), secret.slice(6))
      assert.strictEqual((yield* call("POST", "/popup-rules", night, { token: "viewer" })).status, 403)
      // The path of a webhook is often a secret, and deliveries tell of events.
      const seen = (yield* call("GET", path, undefined, { token: "viewer" })).body
      assert.strictEqual(at(seen, "channels", 0, "url"), hooks.url)
      const listed = (yield* call("GET", "/popup-rules", undefined, { token: "viewer" })).body
      assert.strictEqual(at(listed, "items", 0, "channels", 0, "url"), hooks.url)
      assert.strictEqual((yield* call("GET", `${path}/deliveries`, undefined, { token: "viewer" })).status, 403)
      const nobody = yield* call("POST", "/popup-rules", { ...night, recipients: {} })
      assert.deepStrictEqual([nobody.status, at(nobody.body, "errors", 0, "pointer")], [422, "/payload/recipients"])
      const unknown = { ...night, filter: { resourceGroups: ["0190163d-8694-7395-8ad4-5b8a3f3d0b09"] } }
      assert.strictEqual((yield* call("POST", "/popup-rules", unknown)).status, 422)
      assert.strictEqual((yield* call("POST", "/popup-rules", { name: "x", channels: [] })).status, 400)
      assert.strictEqual((yield* call("GET", "/popup-rules/0190163d-8694-7395-8ad4-5b8a3f3d0b09")).status, 404)
      const same = yield* call("PUT", path, night, { ifMatch: "\"1\"" })
      assert.deepStrictEqual([same.status, same.body["newSecrets"], same.headers.get("etag")], [200, [], "\"2\""])
      assert.strictEqual((yield* call("PUT", path, night, { ifMatch: "\"1\"" })).status, 412)
      assert.strictEqual((yield* call("PATCH", path, { active: false }, { ifMatch: "\"1\"" })).status, 412)
      assert.strictEqual((yield* call("PATCH", path, { active: false })).body["active"], false)
      assert.strictEqual(at((yield* call("GET", "/popup-rules?active=true")).body, "items", "length"), 0)
      yield* happen(inGroup)
      yield* Effect.sleep("1 second")
      assert.deepStrictEqual(yield* logged(id), [])
      yield* call("PATCH", path, { active: true })

      // A test goes through all channels at once.
      const tested = yield* call("POST", `${path}/test`)
      assert.deepStrictEqual(
        (tested.body["deliveries"] as ReadonlyArray<Record<string, unknown>>).map((
          one,
        ) => [one["channel"], one["outcome"]]),
        [["webhook", "delivered"], ["inApp", "delivered"], ["email", "delivered"], ["email", "delivered"]],
      )
      assert.strictEqual(at(published[0], "data", "test"), true)
      assert.include(mails.toSorted()[0]!, "guard@example.com [Test]")
      assert.strictEqual((yield* logged(id)).length, 4)
      const [heard] = hooks.came.splice(0)
      assert.strictEqual(
        at(new Webhook(secret).verify(heard!.body, heard!.headers as Record<string, string>), "data", "popup", "test"),
        true,
      )
      mails.length = 0
      published.length = 0

      // Two nodes, one of which comes and goes; each event once.
      const second = yield* start("second")
      const matching = 60
      for (let n = 0; n < matching; n++) {
        yield* happen(inGroup)
        if (n % 3 === 0) yield* happen(elsewhere)
        if (n % 4 === 0) yield* happen(inGroup, { severity: "info" })
        if (n % 5 === 0) yield* happen(inGroup, { type: "node.started" })
        if (n === 20) yield* second.end
        if (n === 40) yield* start("second")
      }
      yield* happen(inGroup, { time: Date.now() - 25 * 3_600_000 })
      yield* settled(id, 4 + matching * 3)
      const all = (yield* logged(id)).slice(0, -4)
      assert.strictEqual(all.length, matching * 3)
      assert.deepStrictEqual(new Set(all.map((one) => one["state"])), new Set(["delivered"]))
      // An attempt that the end of a node cut off may come again, under the same id.
      assert.isAtLeast(hooks.came.length, matching)
      assert.strictEqual(new Set(hooks.came.map(({ headers }) => headers["webhook-id"])).size, matching)
      assert.strictEqual(published.length, matching)
      // The outsider may not see cameras, though the rule names him.
      assert.deepStrictEqual(published[0]!.audience, [guard])
      assert.deepStrictEqual(new Set(mails), new Set(["guard@example.com Camera offline: Front: no answer"]))
      assert.strictEqual(mails.length, matching)

      // Once per subject within the cooldown.
      const calm = { name: "Calm", cooldownSeconds: 3600, channels: [{ kind: "webhook", url: `${hooks.url}/calm` }] }
      const quiet = (yield* call("POST", "/popup-rules", calm)).body["id"]
      yield* call("PATCH", path, { active: false })
      for (let n = 0; n < 5; n++) {
        yield* happen(inGroup)
        yield* happen(elsewhere)
      }
      yield* happen(inGroup, { time: Date.now() + 3_600_000 })
      yield* settled(quiet, 3)
      yield* Effect.sleep("1 second")
      assert.strictEqual((yield* logged(quiet)).length, 3)
      yield* call("DELETE", `/popup-rules/${String(quiet)}`)
      assert.strictEqual((yield* call("GET", `/popup-rules/${String(quiet)}`)).status, 404)

      // Tried again, with every attempt in the log; given up at the end; switched off by a 410.
      const flaky = { name: "Flaky", channels: [{ kind: "webhook", url: `${hooks.url}/flaky` }] }
      const flakyId = (yield* call("POST", "/popup-rules", flaky)).body["id"]
      const once = Effect.fnUntraced(function*(...answers: ReadonlyArray<number>) {
        hooks.came.length = 0
        hooks.answers.push(...answers.map((status) => ({ status })))
        const before = (yield* logged(flakyId)).length
        yield* happen(elsewhere)
        const [newest] = yield* settled(flakyId, before + 1)
        const attempts = (newest!["attempts"] as ReadonlyArray<Record<string, unknown>>).map((one) => one["outcome"])
        return {
          state: newest!["state"],
          attempts,
          ids: new Set(hooks.came.map(({ headers }) => headers["webhook-id"])).size,
        }
      })
      assert.deepStrictEqual(yield* once(500, 503), {
        state: "delivered",
        attempts: ["failed", "failed", "delivered"],
        ids: 1,
      })
      assert.deepStrictEqual(yield* once(500, 500, 500), {
        state: "failed",
        attempts: ["failed", "failed", "failed"],
        ids: 1,
      })
      assert.deepStrictEqual(yield* once(410), { state: "failed", attempts: ["gone"], ids: 1 })
      const off = yield* call("GET", `/popup-rules/${String(flakyId)}`)
      assert.isString(at(off.body, "channels", 0, "disabledAt"))
      hooks.came.length = 0
      yield* happen(elsewhere)
      yield* Effect.sleep("1 second")
      assert.strictEqual((yield* logged(flakyId)).length, 3)
      yield* call("PUT", `/popup-rules/${String(flakyId)}`, flaky)
      assert.strictEqual((yield* once()).state, "delivered")
      const page = yield* call("GET", `/popup-rules/${String(flakyId)}/deliveries?limit=3`)
      const rest = yield* call(
        "GET",
        `/popup-rules/${String(flakyId)}/deliveries?limit=3&cursor=${String(page.body["nextCursor"])}`,
      )
      assert.deepStrictEqual([at(page.body, "items", "length"), at(rest.body, "items", "length")], [3, 1])
      assert.strictEqual((yield* call("DELETE", `/popup-rules/${String(flakyId)}`)).status, 204)
    }),
)

live("push messages reach the browsers of the recipients until they are gone", () =>
  Effect.gen(function*() {
    const { call, happen, settled, sql } = yield* world
    const service = yield* receiver
    const page = browser()
    const key = yield* call("GET", "/push/key")
    assert.strictEqual(Buffer.from(String(key.body["publicKey"]), "base64url").length, 65)
    assert.deepStrictEqual((yield* call("GET", "/push/key")).body, key.body)
    const endpoint = `${service.url}/push/very-secret`
    const bad = { endpoint, keys: { ...page.keys, p256dh: Buffer.alloc(65, 1).toString("base64url") } }
    assert.strictEqual((yield* call("POST", "/push/subscriptions", bad)).status, 422)
    const added = yield* call("POST", "/push/subscriptions", { endpoint, keys: page.keys })
    assert.strictEqual(added.status, 201)
    // The same browser again is the same subscription.
    yield* call("POST", "/push/subscriptions", { endpoint, keys: page.keys })
    const listed = yield* call("GET", "/push/subscriptions")
    assert.strictEqual(at(listed.body, "items", "length"), 1)
    assert.notInclude(JSON.stringify(listed.body), "very-secret")
    assert.notInclude(JSON.stringify(yield* sql`SELECT * FROM notification_push`), "very-secret")
    const rule = { name: "Push", recipients: { users: [userId] }, channels: [{ kind: "webPush" }] }
    const { id } = (yield* call("POST", "/popup-rules", rule)).body
    yield* happen(inGroup)
    yield* settled(id, 1)
    const [came] = service.came
    assert.include(String(came!.headers.authorization), `k=${String(key.body["publicKey"])}`)
    assert.strictEqual(at(JSON.parse(page.decrypt(came!.body)), "popup", "title"), "Camera offline")
    assert.isString(at((yield* call("GET", "/push/subscriptions")).body, "items", 0, "lastDeliveredAt"))
    service.answers.push({ status: 410 })
    yield* happen(inGroup)
    yield* settled(id, 2)
    assert.strictEqual(at((yield* call("GET", "/push/subscriptions")).body, "items", "length"), 0)
    const again = yield* call("POST", "/push/subscriptions", { endpoint, keys: page.keys })
    const own = `/push/subscriptions/${String(again.body["id"])}`
    assert.strictEqual((yield* call("DELETE", own)).status, 204)
    assert.strictEqual((yield* call("DELETE", own)).status, 404)
  }))
