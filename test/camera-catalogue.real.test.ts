/** Many cameras: a whole node with 10,000 of them is searched, ordered, listed by status, exported, imported, added together. */
import { knownSeal } from "#actors/behaviour/camera-seal.ts"
import { backupSecret, CameraBackup } from "#schema/camera-backup.ts"
import { cameraJobSecret, cameraSecret } from "#schema/camera-change.ts"
import { CameraId } from "#schema/common.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { adminPassword, type WholeNode, wholeNode } from "./harness/whole-node.ts"
import { startDevice } from "./onvif-simulator/device.ts"

const cameras = "/camera/api/v1/cameras"
const passphrase = encodeURIComponent("größe zählt nicht")

const asker =
  (base: string, token: string) =>
  (
    method: string,
    path: string,
    options: { readonly body?: unknown; readonly headers?: Record<string, string> } = {},
  ) =>
    Effect.promise(async () => {
      const response = await fetch(`${base}${path}`, {
        method,
        headers: {
          "content-type": "application/json",
          ...(token === "" ? {} : { authorization: `Bearer ${token}` }),
          ...options.headers,
        },
        ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      })
      const text = await response.text()
      return { status: response.status, text, body: (text === "" ? {} : JSON.parse(text)) as Record<string, unknown> }
    })

type Ask = ReturnType<typeof asker>
type Answer = Effect.Success<ReturnType<Ask>>

/** The job of a 202, when it is done. */
const done = (ask: Ask, taken: Answer) =>
  Effect.gen(function*() {
    assert.strictEqual(taken.status, 202, taken.text.slice(0, 400))
    for (;;) {
      const { body } = yield* ask("GET", `${cameras}/jobs/${taken.body["id"] as string}`)
      if (body["state"] === "done") return body
      yield* Effect.sleep(100)
    }
  })

interface Written {
  readonly id: string
  readonly channels: ReadonlyArray<{ readonly streams: ReadonlyArray<{ readonly sourceUrl: string }> }>
}

/** What an export told, brought back after some of it was lost. */
const importing = (node: WholeNode, ask: Ask, document: Record<string, unknown>, id: string) =>
  Effect.gen(function*() {
    const { sql, vault } = node
    assert.strictEqual((yield* ask("DELETE", `${cameras}/${id}`)).status, 204)
    yield* sql`DELETE FROM camera WHERE name LIKE 'Camera 77%' AND position % 2 = 0`
    const gone = 10_000 - (yield* sql<{ readonly n: number }>`SELECT count(*)::integer AS n FROM camera`)[0]!.n
    const headers = { "nightjar-passphrase": passphrase }
    const plan = (body: unknown, given: Record<string, string> = headers) =>
      ask("POST", `${cameras}/import/plan`, { body, headers: given })
    const planned = yield* plan(document)
    assert.deepStrictEqual(planned.body["counts"], {
      add: gone,
      known: 10_000 - gone,
      clash: 0,
      unsupported: 0,
      invalid: 0,
    })
    assert.strictEqual((yield* plan(document, { "nightjar-passphrase": "another-passphrase" })).status, 409)

    const mine = (document["cameras"] as ReadonlyArray<Written>).find((one) => one.id === id)!
    const [channel] = mine.channels
    const moved = { ...channel, streams: [{ ...channel!.streams[0], sourceUrl: "rtsp://attacker.example/" }] }
    const wrong = yield* plan({
      ...document,
      cameras: [{ ...mine, channels: [moved] }, { name: "no camera" }, mine, mine],
    })
    const outcomes = (wrong.body["items"] as ReadonlyArray<{ readonly outcome: string }>).map(({ outcome }) => outcome)
    assert.deepStrictEqual(outcomes, ["invalid", "invalid", "clash", "clash"])

    const job = yield* done(ask, yield* ask("POST", `${cameras}/import`, { body: document, headers }))
    assert.deepInclude(job["counts"], { added: gone, known: 10_000 - gone, failed: 0, waiting: 0 })
    const back = (yield* ask("GET", `${cameras}/${id}`)).body
    assert.deepInclude(back, { name: "Side door", tags: ["yard"], hasPassword: true, username: "admin" })
    const [row] = yield* sql<{ readonly sealed: string }>`SELECT sealed_password AS sealed FROM camera WHERE id = ${id}`
    const secret = yield* vault.open(cameraSecret(CameraId.make(id)), row!.sealed)
    assert.strictEqual(Redacted.value(secret), "swordfish")
    const left = yield* sql`SELECT 1 FROM camera_job_item WHERE sealed_input IS NOT NULL`
    assert.isEmpty(left)
  })

/** A camera that tells its streams; nobody plays them here. */
const simulatedDevice = Effect.acquireRelease(
  Effect.promise(() => startDevice({ streams: { main: "rtsp://127.0.0.1:9/main", sub: "rtsp://127.0.0.1:9/sub" } })),
  (device) => Effect.promise(() => device.close()),
)

/** A job as a node leaves it that is killed in the middle: one camera was added but not told, one not yet begun. */
const goingOn = ({ sql, vault }: WholeNode, ask: Ask, known: string) =>
  Effect.gen(function*() {
    const [job, first, second, id] = ["a", "b", "c", "d"].map((end) => `01900000-0000-7000-8000-00000000aaa${end}`)
    const input = { name: "Nobody", driver: "onvif", host: "127.0.0.1", port: 9, username: null, password: null }
    const sealed = yield* vault.seal(cameraJobSecret(second!), Redacted.make(JSON.stringify(input)))
    yield* sql`
      INSERT INTO camera_job (id, kind, node_id, created_at)
      SELECT ${job}::text::uuid, 'bulk', home_node_id, now() FROM camera WHERE id = ${known}`
    yield* sql`
      INSERT INTO camera_job_item (id, job_id, number, name, host, outcome, detail, camera_id, sealed_input)
      VALUES (${first}, ${job}, 0, 'Side door', 'h', 'waiting', '', ${known}, ${sealed}),
        (${second}, ${job}, 1, 'Nobody', 'h', 'waiting', '', ${id}, ${sealed})`
    const before = (yield* ask("GET", `${cameras}/jobs/${job}`)).body
    assert.deepInclude(before, { state: "running", progress: 0 })
    const other = { cameras: [{ host: "127.0.0.1", port: 9 }] }
    yield* done(ask, yield* ask("POST", `${cameras}/bulk`, { body: other }))
    const after = yield* done(ask, { status: 202, text: "", body: { id: job } })
    assert.deepInclude(after["counts"], { added: 1, unreachable: 1, waiting: 0 })
  })

/** Several addresses at once: one answers, one refuses, one is not there, one is known. */
const adding = (ask: Ask) =>
  Effect.gen(function*() {
    const { host, port } = yield* simulatedDevice
    const other = yield* simulatedDevice
    const bulk = {
      cameras: [
        { host, port, name: "Hall" },
        { host: other.host, port: other.port, username: "admin", password: "wrong" },
        { host, port: 9 },
      ],
      username: "admin",
      password: "swordfish",
      tags: ["bulk"],
    }
    const job = yield* done(ask, yield* ask("POST", `${cameras}/bulk`, { body: bulk }))
    assert.deepInclude(job["counts"], { added: 1, refused: 1, unreachable: 1, waiting: 0 })
    const again = yield* done(
      ask,
      yield* ask("POST", `${cameras}/bulk`, { body: { ...bulk, cameras: [{ host, port }] } }),
    )
    assert.deepInclude(again["counts"], { added: 0, known: 1 })
    const items = yield* ask("GET", `${cameras}/jobs/${job["id"] as string}/items`)
    const [hall] = items.body["items"] as ReadonlyArray<{ readonly cameraId: string; readonly outcome: string }>
    assert.strictEqual(hall!.outcome, "added")
    assert.deepStrictEqual((yield* ask("GET", `${cameras}/${hall!.cameraId}`)).body["tags"], ["bulk"])
    const found = yield* ask("GET", `${cameras}/search?tag=bulk`)
    assert.deepStrictEqual(named(found), ["Hall"])
    assert.isString((found.body["items"] as ReadonlyArray<{ readonly manufacturer: string | null }>)[0]!.manufacturer)
  })

const named = (answer: { readonly body: Record<string, unknown> }) =>
  (answer.body["items"] as ReadonlyArray<{ readonly name: string }>).map(({ name }) => name)

/** As if people had added them, but at once: each with one channel and one stream. */
const fill = (sql: WholeNode["sql"], count: number) =>
  Effect.gen(function*() {
    const id = (kind: string, n: string) => `('0190000${kind}-0000-7000-8000-' || lpad(to_hex(${n}), 12, '0'))::uuid`
    yield* sql.unsafe(`
      INSERT INTO camera (id, slot, home_node_id, name, description, driver, enabled, position, status, reason, created_at,
        updated_at, version, tags, manufacturer, model)
      SELECT ${
      id("1", "n")
    }, 'elsewhere', '01900000-0000-7000-8000-000000000000', 'Camera ' || n, 'hall ' || n % 40, 'rtsp',
        true, n, CASE WHEN n % 100 = 0 THEN 'offline' ELSE 'online' END, '', now(), now(), 1,
        ARRAY['floor ' || n % 9], 'Maker', 'M-' || n % 500
      FROM generate_series(1, ${count}) n`)
    yield* sql.unsafe(`
      INSERT INTO camera_channel (id, camera_id, number, name, active, created_at, updated_at, version)
      SELECT ${id("2", "n")}, ${
      id("1", "n")
    }, 1, 'Channel 1', true, now(), now(), 1 FROM generate_series(1, ${count}) n`)
    yield* sql.unsafe(`
      INSERT INTO camera_stream (id, camera_id, channel_id, role, source_url, transport, enabled, status, reason, created_at,
        updated_at, version)
      SELECT ${id("3", "n")}, ${id("1", "n")}, ${
      id("2", "n")
    }, 'main', 'rtsp://10.' || n / 65536 || '.' || n / 256 % 256 ||
        '.' || n % 256 || ':554/main', 'tcp', true, CASE WHEN n % 100 = 0 THEN 'offline' ELSE 'online' END, '', now(), now(), 1
      FROM generate_series(1, ${count}) n`)
    yield* sql`UPDATE camera SET search_text = camera_search_text(id)`
    yield* sql`ANALYZE camera`
  })

it.live("ten thousand cameras are searched, ordered, listed and exported", () =>
  Effect.gen(function*() {
    const node = yield* wholeNode()
    const { base, sql } = node
    const login = { username: "admin", password: adminPassword }
    const token = (yield* asker(base, "")("POST", "/auth/api/v1/auth/login", { body: login }))
      .body["accessToken"] as string
    const ask = asker(base, token)
    const added = yield* ask("POST", cameras, {
      body: {
        name: "Back door",
        driver: "rtsp",
        tags: ["gate", "night watch"],
        username: "admin",
        password: "swordfish",
        streams: [{ role: "main", sourceUrl: "rtsp://viewer:halibut@127.0.0.1:9/100%25_main" }],
      },
    })
    assert.strictEqual(added.status, 201, added.text)
    assert.deepStrictEqual(added.body["tags"], ["gate", "night watch"])
    const id = added.body["id"] as string
    yield* fill(sql, 9_999)

    const search = (query: string) => Effect.map(ask("GET", `${cameras}/search?${query}`), named)
    assert.deepStrictEqual(yield* search("q=camera%207777"), ["Camera 7777"])
    assert.deepStrictEqual(yield* search("q=10.0.30.97"), ["Camera 7777"])
    assert.deepStrictEqual(yield* search("q=ACK%20door"), ["Back door"])
    assert.deepStrictEqual(yield* search("q=127.0.0.1:9"), ["Back door"])
    assert.deepStrictEqual(yield* search("q=night"), ["Back door"])
    assert.deepStrictEqual(yield* search("tag=gate"), ["Back door"])
    assert.deepStrictEqual(yield* search("tag=gat"), [])
    assert.deepStrictEqual(yield* search("q=%25%25"), [])
    assert.deepStrictEqual(yield* search("q=m_499"), [])
    assert.lengthOf(yield* search("q=maker%20m-499"), 20)
    assert.lengthOf(yield* search("tag=floor%203&q=m-499"), 2)

    const put = yield* ask("PUT", `${cameras}/${id}`, { body: { name: "Back door", tags: ["yard"] } })
    assert.deepStrictEqual(put.body["tags"], ["yard"])
    assert.deepStrictEqual((yield* ask("PUT", `${cameras}/${id}`, { body: { name: "Side door" } })).body["tags"], [
      "yard",
    ])
    assert.deepStrictEqual(yield* search("q=night"), [])
    assert.deepStrictEqual(yield* search("q=yard%20side"), ["Side door"])
    assert.strictEqual((yield* ask("PUT", `${cameras}/${id}`, { body: { name: "x", tags: ["a", "a"] } })).status, 400)

    const offline: Array<string> = []
    for (let cursor: string | null = ""; cursor !== null;) {
      const page = yield* ask("GET", `${cameras}/status/offline?limit=40${cursor === "" ? "" : `&cursor=${cursor}`}`)
      offline.push(...named(page))
      cursor = page.body["nextCursor"] as string | null
    }
    assert.lengthOf(offline.filter((name) => name.startsWith("Camera ")), 99)
    assert.strictEqual(new Set(offline).size, offline.length)

    const all = yield* sql<{ readonly id: string }>`SELECT id FROM camera ORDER BY position DESC LIMIT 10000`
    const ordered = yield* ask("PUT", `${cameras}/reorder`, { body: { ids: all.map((row) => row.id) } })
    assert.strictEqual(ordered.status, 200, ordered.text.slice(0, 400))
    assert.deepStrictEqual(named(ordered).slice(0, 2), ["Camera 9999", "Camera 9998"])

    const bare = yield* ask("GET", `${cameras}/export`)
    assert.strictEqual(bare.status, 200)
    assert.strictEqual(bare.body["count"], 10_000)
    assert.isNull(bare.body["sealing"])
    const sealed = yield* ask("GET", `${cameras}/export`, { headers: { "nightjar-passphrase": passphrase } })
    for (const text of [bare.text, sealed.text]) {
      assert.notInclude(text, "swordfish")
      assert.notInclude(text, "halibut")
    }
    const document = yield* Schema.decodeUnknownEffect(CameraBackup)(sealed.body)
    assert.lengthOf(document.cameras, 10_000)
    const mine = document.cameras.find((one) => one.id === id)!
    const stream = mine.channels[0]!.streams[0]!
    assert.deepInclude(mine, { name: "Side door", tags: ["yard"], hasPassword: true, username: "admin" })
    assert.isNull(yield* knownSeal(Redacted.make("another passphrase"), document.sealing!))
    const seal = (yield* knownSeal(Redacted.make(passphrase), document.sealing!))!
    assert.strictEqual(Redacted.value(seal.open(backupSecret(mine), mine.sealedPassword!)!), "swordfish")
    assert.strictEqual(Redacted.value(seal.open(backupSecret(mine, stream), stream.sealedPassword!)!), "halibut")
    // In a document that was changed the password opens for no other address.
    const elsewhere = { ...stream, sourceUrl: "rtsp://attacker.example/" }
    assert.isNull(seal.open(backupSecret(mine, elsewhere), stream.sealedPassword!))
    assert.strictEqual(
      (yield* ask("GET", `${cameras}/export`, { headers: { "nightjar-passphrase": "short" } })).status,
      400,
    )
    yield* importing(node, ask, sealed.body, id)
    yield* goingOn(node, ask, id)
    yield* adding(ask)
  }), 180_000)
