/** Renewing the master key: what opens when, what stands in which file, and that nothing sealed is forgotten. */
import { sealedColumns } from "#actors/store/auth-vault.ts"
import * as Identity from "#cluster/identity.ts"
import * as Vaults from "#cluster/vault.ts"
import { loadAssignments } from "#media/capture/assignments.ts"
import { memoryLineDisk } from "#media/capture/line-disk.ts"
import { keyIdOf, MasterKeys, Vault } from "#schema/vault.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const root = join(import.meta.dirname, "..")

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-keys-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** A node's vault and keys, as a start finds them. */
const started = (dataFolder: string, masterKey: string | null = null) =>
  Effect.all({ vault: Vault, keys: MasterKeys }).pipe(
    Effect.provide(Vaults.layer({ dataFolder, masterKey: masterKey === null ? null : Redacted.make(masterKey) })),
    Effect.provide(NodeFileSystem.layer),
  )
const secret = Redacted.make("secret")

describe("a renewed master key", () => {
  it.effect("seals at once, opens what was sealed before, and is kept before it seals", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { keys, vault } = yield* started(data)
      const before = yield* vault.seal("a", secret)
      const ids = yield* keys.renew
      const after = yield* vault.seal("a", secret)
      assert.strictEqual(keyIdOf(after), ids.sealing)
      assert.deepStrictEqual(ids.older, [keyIdOf(before) ?? "none"])
      const file = join(data, "master.key")
      assert.strictEqual(readFileSync(file, "utf8").trim().split("\n").length, 2)
      assert.strictEqual(statSync(file).mode & 0o777, 0o600)
      const again = yield* started(data)
      for (const sealed of [before, after]) {
        assert.strictEqual(Redacted.value(yield* vault.open("a", sealed)), "secret")
        assert.strictEqual(Redacted.value(yield* again.vault.open("a", sealed)), "secret")
      }
      assert.deepStrictEqual(yield* again.keys.ids, ids)
    }))

  it.effect("leaves nothing of a retired one, and cannot retire itself", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { keys, vault } = yield* started(data)
      const before = yield* vault.seal("a", secret)
      const { older, sealing } = yield* keys.renew
      yield* keys.retire([...older, sealing])
      assert.deepStrictEqual(yield* keys.ids, { sealing, older: [], source: "file" })
      assert.strictEqual((yield* Effect.flip(vault.open("a", before))).reason, "unknownKey")
      assert.strictEqual(readFileSync(join(data, "master.key"), "utf8").trim().split("\n").length, 1)
      assert.deepStrictEqual(readdirSync(data), ["master.key"])
      assert.deepStrictEqual(yield* (yield* started(data)).keys.ids, { sealing, older: [], source: "file" })
    }))

  it.effect("is the operator's to make where he gives it; the file's keys count as those of before", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const first = yield* started(data)
      const before = yield* first.vault.seal("a", secret)
      const given = yield* started(data, Buffer.alloc(32, 7).toString("base64"))
      assert.strictEqual((yield* Effect.flip(given.keys.renew))._tag, "MasterKeyGiven")
      assert.deepStrictEqual((yield* given.keys.ids).older, [keyIdOf(before) ?? "none"])
      const kept = readFileSync(join(data, "master.key"))
      yield* given.keys.retire([keyIdOf(before)!])
      assert.strictEqual((yield* Effect.flip(given.vault.open("a", before))).reason, "unknownKey")
      assert.deepStrictEqual(readFileSync(join(data, "master.key")), kept)
    }))

  it.effect("is not made without end, and a damaged file stops the start", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { keys } = yield* started(data)
      for (let n = 0; n < 7; n++) yield* keys.renew
      assert.strictEqual((yield* Effect.flip(keys.renew))._tag, "MasterKeyNotKept")
      const file = join(data, "master.key")
      writeFileSync(file, `${readFileSync(file, "utf8")}junk\n`)
      assert.strictEqual((yield* Effect.flip(started(data)))._tag, "MasterKeyUnusable")
    }))
})

describe("places of sealed texts", () => {
  it.effect("the identity is sealed anew and stays who it is", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { keys, vault } = yield* started(data)
      const identity = Identity.NodeIdentity.pipe(
        Effect.provide(Identity.layer({ dataFolder: data })),
        Effect.provideService(Vault, vault),
        Effect.provide(NodeFileSystem.layer),
      )
      const before = yield* identity
      const sealed = yield* Identity.sealedIdentity(data).pipe(
        Effect.provideService(Vault, vault),
        Effect.provide(NodeFileSystem.layer),
      )
      const { older, sealing } = yield* keys.renew
      assert.deepStrictEqual([...(yield* sealed.keys)], [...older])
      yield* sealed.reseal
      assert.deepStrictEqual([...(yield* sealed.keys)], [sealing])
      yield* keys.retire(older)
      const after = yield* identity
      assert.strictEqual(after.nodeId, before.nodeId)
      assert.strictEqual(after.signing.publicKey, before.signing.publicKey)
    }))

  it.effect("passwords of assignments are sealed anew; one that does not open keeps its seal", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const { keys, vault } = yield* started(data)
      const disk = memoryLineDisk()
      const id = (n: number) => `0190163d-8694-7395-8ad4-5b8a3f3d0a0${n}` as never
      const assignment = (n: number, password: string | null) => ({
        streamId: id(n),
        cameraId: id(n),
        channelId: id(n),
        cameraName: "",
        channelName: "",
        role: "main" as const,
        driver: "rtsp" as const,
        url: "rtsp://camera/",
        username: "u",
        password: password === null ? null : Redacted.make(password),
        transport: "tcp" as const,
        nodeId: id(9),
        epoch: 1,
        enabled: true,
        recording: null,
      })
      const assignments = yield* loadAssignments(disk, vault)
      yield* assignments.put(assignment(1, "one"))
      yield* assignments.put(assignment(2, null))
      yield* assignments.put(assignment(3, "three"))
      const { older, sealing } = yield* keys.renew
      yield* assignments.reseal
      const seals = (yield* disk.load).match(/nj1\.[0-9a-f]{12}/g) ?? []
      assert.deepStrictEqual(seals, [`nj1.${sealing}`, `nj1.${sealing}`])
      yield* keys.retire(older)
      const again = yield* loadAssignments(disk, vault)
      const passwords = again.all().map(({ assignment: { password } }) =>
        password === null ? null : Redacted.value(password)
      )
      assert.deepStrictEqual(passwords, ["one", null, "three"])
      const stranger = yield* started(yield* folder)
      const locked = yield* loadAssignments(disk, stranger.vault)
      yield* locked.reseal
      assert.deepStrictEqual((yield* disk.load).match(/nj1\.[0-9a-f]{12}/g), seals)
    }))

  it("every sealed column of the migrations is known, and its place is the one its slice seals for", () => {
    const migrations = join(root, "actors", "store", "migrations")
    const found = readdirSync(migrations).flatMap((name) => {
      const text = readFileSync(join(migrations, name), "utf8")
      return [...text.matchAll(/CREATE TABLE (\w+) \(([\s\S]*?)\n {4}\)/g)].flatMap(([, table, columns = ""]) =>
        [...columns.matchAll(/^\s*(sealed\w*) text/gm)].map(([, column]) => `${table}.${column}`)
      )
    })
    const known = sealedColumns.map(({ column, table }) => `${table}.${column}`)
    assert.deepStrictEqual(known.toSorted(), found.toSorted())
    const sources = ["actors/behaviour", "schema"].flatMap((floor) =>
      readdirSync(join(root, floor)).filter((name) => name.endsWith(".ts")).map((name) =>
        readFileSync(join(root, floor, name), "utf8")
      )
    ).join("\n")
    const uuid = "0190163d-8694-7395-8ad4-5b8a3f3d0a01"
    for (const { context, table } of sealedColumns) {
      const [start = "", end = ""] = context(uuid).split(uuid)
      assert.isTrue(sources.includes(`\`${start}\${`) || sources.includes(`"${start}"`), `${table}: ${start}…${end}`)
    }
  })
})
