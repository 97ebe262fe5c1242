/**
 * A home node's configuration on its way to a guardian, and at rest there: signed by the home node (JWS, RFC 7515, EdDSA), then encrypted to
 * the guardian's transfer key (JWE, RFC 7516, ECDH-ES+A256KW over X25519, A256GCM).
 *
 * Invariants
 * 1. Only that guardian opens it, and only as the bundle of the home node whose signing key was confirmed at pairing.
 * 2. The payload is canonical JSON (RFC 8785): the same configuration is the same bytes.
 * 3. On the guardian's disk it stays as it came; a file appears whole or not at all, and only its owner may read it.
 */
import type { NodeId } from "#schema/common.ts"
import { FailoverBundle } from "#schema/federation-bundle.ts"
import canonicalize from "canonicalize"
import { Effect, FileSystem, Schema } from "effect"
import { compactDecrypt, CompactEncrypt, CompactSign, compactVerify, importJWK } from "jose"
import { join } from "node:path"
import { NodeIdentity } from "./identity.ts"

const signedType = "nightjar-failover-bundle+jws"
const sealedType = "nightjar-failover-bundle+jwe"

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
    const { nodeId, signing } = yield* NodeIdentity
    const payload = canonicalize(yield* Effect.orDie(encodeBundle(bundle))) ?? ""
    return yield* Effect.promise(async () => {
      const signed = await new CompactSign(Buffer.from(payload, "utf8"))
        .setProtectedHeader({ alg: "EdDSA", typ: signedType, kid: nodeId })
        .sign(signing.privateKey)
      const key = await importJWK({ kty: "OKP", crv: "X25519", x: guardian.transferKey }, "ECDH-ES+A256KW")
      return await new CompactEncrypt(Buffer.from(signed, "utf8"))
        .setProtectedHeader({
          alg: "ECDH-ES+A256KW",
          enc: "A256GCM",
          typ: sealedType,
          cty: signedType,
          kid: guardian.nodeId,
        })
        .encrypt(key)
    })
  },
)

/** Opens what {@link sealBundle} of that home node made for this node. */
export const openBundle = Effect.fnUntraced(
  function*(sealed: string, home: { readonly nodeId: NodeId; readonly signingKey: string }) {
    const { nodeId, transfer } = yield* NodeIdentity
    const unusable = (detail: string) => new BundleUnusable({ homeNodeId: home.nodeId, detail })
    const payload = yield* Effect.tryPromise({
      try: async () => {
        const opened = await compactDecrypt(sealed, transfer.privateKey, {
          keyManagementAlgorithms: ["ECDH-ES+A256KW"],
          contentEncryptionAlgorithms: ["A256GCM"],
        })
        const key = await importJWK({ kty: "OKP", crv: "Ed25519", x: home.signingKey }, "EdDSA")
        const verified = await compactVerify(opened.plaintext, key, { algorithms: ["EdDSA"] })
        if (verified.protectedHeader.typ !== signedType) throw new Error("another kind of document")
        return Buffer.from(verified.payload).toString("utf8")
      },
      catch: () => unusable("it was made for another node, by another node, or changed on the way"),
    })
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
