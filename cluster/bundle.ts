/**
 * A home node's configuration on its way to a guardian, and at rest there: signed by the home node, then encrypted to the guardian's
 * transfer key (`sealed-document.ts`).
 *
 * Invariants
 * 1. Only that guardian opens it, and only as the bundle of the home node whose signing key was confirmed at pairing.
 * 2. The payload is canonical JSON (RFC 8785): the same configuration is the same bytes.
 * 3. On the guardian's disk it stays as it came; a file appears whole or not at all, and only its owner may read it.
 */
import type { NodeId } from "#schema/common.ts"
import { FailoverBundle } from "#schema/federation-bundle.ts"
import { Effect, FileSystem, Schema } from "effect"
import { join } from "node:path"
import { NodeIdentity } from "./identity.ts"
import { openDocument, sealDocument } from "./sealed-document.ts"

const kind = "nightjar-failover-bundle"

/** It was not made for this node, not by that home node, or it was changed on the way. */
export class BundleUnusable extends Schema.TaggedError<BundleUnusable>()("BundleUnusable", {
  homeNodeId: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `The configuration of the node cannot be used: ${this.detail}`
  }
}

const Wire = Schema.fromJsonString(Schema.toCodecJson(FailoverBundle))
const encodeBundle = Schema.encodeEffect(Schema.toCodecJson(FailoverBundle))
const decodeBundle = Schema.decodeUnknownEffect(Wire)

/** Signs as this node and encrypts to the guardian. */
export const sealBundle = Effect.fnUntraced(
  function*(bundle: FailoverBundle, guardian: { readonly nodeId: NodeId; readonly transferKey: string }) {
    return yield* sealDocument(kind, yield* Effect.orDie(encodeBundle(bundle)), guardian)
  },
)

/** Opens what {@link sealBundle} of that home node made for this node. */
export const openBundle = Effect.fnUntraced(
  function*(sealed: string, home: { readonly nodeId: NodeId; readonly signingKey: string }) {
    const { nodeId } = yield* NodeIdentity
    const unusable = (detail: string) => new BundleUnusable({ homeNodeId: home.nodeId, detail })
    const payload = yield* Effect.mapError(openDocument(kind, sealed, home), ({ detail }) => unusable(detail))
    const bundle = yield* Effect.mapError(decodeBundle(payload), () => unusable("its form is not known here"))
    if (bundle.homeNodeId !== home.nodeId || bundle.guardianNodeId !== nodeId) {
      return yield* unusable("it names other nodes")
    }
    return bundle
  },
)

/** Where bundles lie, one file a home node. */
export const bundleShelf = (folder: string) =>
  Effect.map(FileSystem.FileSystem, (fs) => {
    const path = (homeNodeId: NodeId) => join(folder, `${homeNodeId}.bundle`)
    return {
      keep: Effect.fnUntraced(function*(homeNodeId: NodeId, sealed: string) {
        yield* fs.makeDirectory(folder, { recursive: true, mode: 0o700 })
        const draft = `${path(homeNodeId)}.new`
        yield* Effect.scoped(Effect.gen(function*() {
          const file = yield* fs.open(draft, { flag: "w", mode: 0o600 })
          yield* file.writeAll(Buffer.from(sealed, "utf8"))
          yield* file.sync
        }))
        yield* fs.rename(draft, path(homeNodeId))
        yield* Effect.scoped(Effect.flatMap(fs.open(folder, { flag: "r" }), (directory) => directory.sync))
      }),
      /** Null: there is none. */
      read: Effect.fnUntraced(function*(homeNodeId: NodeId) {
        return (yield* fs.exists(path(homeNodeId))) ? yield* fs.readFileString(path(homeNodeId)) : null
      }),
      drop: (homeNodeId: NodeId) => fs.remove(path(homeNodeId), { force: true }),
    }
  })
export type BundleShelf = Effect.Success<ReturnType<typeof bundleShelf>>
