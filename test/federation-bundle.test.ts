/** A home node's configuration on its way to its guardian: it comes as it went, to nobody else, and only whole. */
import { bundleShelf, openBundle, sealBundle } from "#cluster/bundle.ts"
import * as Identity from "#cluster/identity.ts"
import * as Vaults from "#cluster/vault.ts"
import { NodeId } from "#schema/common.ts"
import type { BundledCamera, FailoverBundle } from "#schema/federation-bundle.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Schema } from "effect"
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-bundle-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** Another node. */
const someone = Effect.gen(function*() {
  const dataFolder = yield* folder
  const context = yield* Layer.build(
    Identity.layer({ dataFolder }).pipe(
      Layer.provide(Vaults.layer({ dataFolder, masterKey: null })),
      Layer.provide(NodeFileSystem.layer),
    ),
  )
  return Context.get(context, Identity.NodeIdentity)
})
/** For a property that asks again and again. */
const pair = Effect.runPromise(Effect.scoped(Effect.all([someone, someone])))
const as = (who: Identity.NodeIdentity["Service"]) => Effect.provideService(Identity.NodeIdentity, who)

const empty = (home: NodeId, guardian: NodeId): FailoverBundle => ({
  format: "nightjar-failover-bundle",
  version: 1,
  homeNodeId: home,
  guardianNodeId: guardian,
  name: "home",
  madeMs: 1,
  epoch: 3,
  digest: "d",
  ingestBps: 4_000_000,
  cameras: [],
  recordings: [],
})

describe("a bundle", () => {
  it.effect.prop("comes as it went, whatever people wrote", [
    Schema.Array(Schema.String).check(Schema.isMaxLength(4)),
    Schema.NullOr(Schema.String),
    Schema.Boolean,
  ], ([texts, password, enabled]) =>
    Effect.gen(function*() {
      const [home, guardian] = yield* Effect.promise(() => pair)
      // A database and a vault keep no half characters.
      const cameras = texts.map((text) => text.toWellFormed()).map((text, n): BundledCamera => ({
        id: `0190163d-8694-7395-8ad4-5b8a3f3d0a${String(n).padStart(2, "0")}` as never,
        homeNodeId: home.nodeId,
        name: text,
        description: text,
        driver: "rtsp",
        host: null,
        port: null,
        enabled,
        username: text,
        password: password?.toWellFormed() ?? null,
        tags: [text],
        capabilities: [{ name: "ptz", supported: "no", by: text }],
        information: { manufacturer: text, model: null, firmware: null, serial: null },
        channels: [],
      }))
      const bundle = { ...empty(home.nodeId, guardian.nodeId), cameras }
      const to = { nodeId: guardian.nodeId, transferKey: guardian.transfer.publicKey }
      const sealed = yield* sealBundle(bundle, to).pipe(as(home))
      const from = { nodeId: home.nodeId, signingKey: home.signing.publicKey }
      assert.deepStrictEqual(yield* openBundle(sealed, from).pipe(as(guardian)), bundle)
    }))

  it.effect("is refused by everybody else, from everybody else, and changed", () =>
    Effect.gen(function*() {
      const [home, guardian, stranger] = [yield* someone, yield* someone, yield* someone]
      const from = { nodeId: home.nodeId, signingKey: home.signing.publicKey }
      const to = { nodeId: guardian.nodeId, transferKey: guardian.transfer.publicKey }
      const bundle = empty(home.nodeId, guardian.nodeId)
      const sealed = yield* sealBundle(bundle, to).pipe(as(home))
      const refused = (text: string, signer: typeof from, who: Identity.NodeIdentity["Service"]) =>
        Effect.map(Effect.flip(openBundle(text, signer).pipe(as(who))), (error) =>
          assert.strictEqual(error._tag, "BundleUnusable"))
      yield* openBundle(sealed, from).pipe(as(guardian))
      yield* refused(sealed, from, stranger)
      yield* refused(sealed, { ...from, signingKey: stranger.signing.publicKey }, guardian)
      yield* refused(sealed, { nodeId: stranger.nodeId, signingKey: home.signing.publicKey }, guardian)
      // A bundle that the home node made for somebody else, encrypted again to this one by a third.
      yield* refused(
        yield* sealBundle({ ...bundle, guardianNodeId: stranger.nodeId }, to).pipe(as(home)),
        from,
        guardian,
      )
      yield* refused(yield* sealBundle(bundle, to).pipe(as(stranger)), from, guardian)
      for (const part of [0, 1, 2, 3, 4]) {
        const parts = sealed.split(".")
        const at = Math.floor(parts[part]!.length / 2)
        const other = parts[part]![at] === "A" ? "B" : "A"
        parts[part] = parts[part]!.slice(0, at) + other + parts[part]!.slice(at + 1)
        yield* refused(parts.join("."), from, guardian)
      }
      for (const text of ["", ".", sealed.slice(0, -1), `${sealed}.`]) yield* refused(text, from, guardian)
    }))

  it.effect("lies on the shelf as it came, readable to its owner alone", () =>
    Effect.gen(function*() {
      const path = join(yield* folder, "failover")
      const shelf = yield* bundleShelf(path)
      const home = NodeId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a01")
      assert.isNull(yield* shelf.read(home))
      yield* shelf.keep(home, "first")
      yield* shelf.keep(home, "second")
      assert.strictEqual(yield* shelf.read(home), "second")
      assert.deepStrictEqual(readdirSync(path), [`${home}.bundle`])
      assert.strictEqual(statSync(join(path, `${home}.bundle`)).mode & 0o077, 0)
      yield* shelf.drop(home)
      yield* shelf.drop(home)
      assert.isNull(yield* shelf.read(home))
    }).pipe(Effect.provide(NodeFileSystem.layer)))
})
