/** Many cameras: a whole node with 10,000 of them is searched, ordered, listed by status and exported. */
import { knownSeal } from "#actors/behaviour/camera-seal.ts"
import { backupSecret, CameraBackup } from "#schema/camera-backup.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { adminPassword, type WholeNode, wholeNode } from "./harness/whole-node.ts"

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
    const { base, sql } = yield* wholeNode()
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
  }), 180_000)
