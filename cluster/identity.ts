/**
 * Who this node is: an id for life, a key it signs with, a key others send it secrets with. Kept in `identity.json` of the data
 * folder, made at the first start.
 *
 * Invariants
 * 1. An identity is made once. One that is there but cannot be read stops the start: a node that took another name by itself
 *    would orphan its recordings.
 * 2. Private keys are sealed by the vault, bound to the node id.
 * 3. The file appears whole or not at all.
 */
import { NodeId } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { keyIdOf, type SealedFile, Vault } from "#schema/vault.ts"
import { Clock, Context, Effect, FileSystem, Layer, Redacted, Schema } from "effect"
import { createPrivateKey, createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto"
import { dirname } from "node:path"

/** The identity is there, but this node cannot use it. */
export class IdentityUnusable extends Schema.TaggedError<IdentityUnusable>()("IdentityUnusable", {
  path: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `The identity of this node (${this.path}) cannot be used: ${this.detail}`
  }
}

const KeptKey = Schema.Struct({
  /** The 32 bytes of the public key in base64url, as a JWK of RFC 8037 has them in `x`. */
  publicKey: Schema.String,
  /** PKCS #8 (RFC 8410) in base64, sealed. */
  privateKey: Schema.String,
})

const Kept = Schema.fromJsonString(Schema.Struct({
  version: Schema.Literal(1),
  nodeId: NodeId,
  createdMs: Schema.Int,
  signing: KeptKey,
  transfer: KeptKey,
}))
type Kept = typeof Kept.Type

export interface NodeKey {
  readonly privateKey: KeyObject
  /** 32 bytes in base64url. */
  readonly publicKey: string
}

export class NodeIdentity extends Context.Service<NodeIdentity, {
  readonly nodeId: NodeId
  readonly createdMs: number
  /** Ed25519 (RFC 8032). */
  readonly signing: NodeKey
  /** X25519 (RFC 7748). */
  readonly transfer: NodeKey
}>()("nightjar/cluster/NodeIdentity") {}

const rawPublicKey = (key: KeyObject): string => {
  const { x } = createPublicKey(key).export({ format: "jwk" })
  if (x === undefined) throw new Error("not a key of RFC 8037")
  return x
}

const placeOf = (nodeId: string, name: string) => `node/${nodeId}/${name}`

const makeKey = Effect.fnUntraced(function*(kind: "ed25519" | "x25519", place: string) {
  const vault = yield* Vault
  // Overloads of generateKeyPairSync take literals only.
  const { privateKey } = kind === "ed25519" ? generateKeyPairSync("ed25519") : generateKeyPairSync("x25519")
  const text = privateKey.export({ format: "der", type: "pkcs8" }).toString("base64")
  return { publicKey: rawPublicKey(privateKey), privateKey: yield* vault.seal(place, Redacted.make(text)) }
})

const openKey = Effect.fnUntraced(function*(kept: typeof KeptKey.Type, place: string) {
  const vault = yield* Vault
  const der = yield* vault.open(place, kept.privateKey)
  return yield* Effect.try({
    try: (): NodeKey => {
      const privateKey = createPrivateKey({
        key: Buffer.from(Redacted.value(der), "base64"),
        format: "der",
        type: "pkcs8",
      })
      if (rawPublicKey(privateKey) !== kept.publicKey) {
        throw new Error("a private key does not belong to its public key")
      }
      return { privateKey, publicKey: kept.publicKey }
    },
    catch: (cause) =>
      new IdentityUnusable({ path: place, detail: cause instanceof Error ? cause.message : "a key is damaged" }),
  })
})

const write = Effect.fnUntraced(function*(path: string, kept: Kept) {
  const fs = yield* FileSystem.FileSystem
  const text = yield* Schema.encodeEffect(Kept)(kept)
  const draft = `${path}.new`
  yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(draft, { flag: "w", mode: 0o600 })
    yield* file.writeAll(Buffer.from(`${text}\n`, "utf8"))
    yield* file.sync
  }))
  yield* fs.rename(draft, path)
  yield* Effect.scoped(Effect.flatMap(fs.open(dirname(path), { flag: "r" }), (folder) => folder.sync))
})

const makeIdentity = Effect.fnUntraced(function*(path: string) {
  const nodeId = NodeId.make(yield* uuid7)
  const kept: Kept = {
    version: 1,
    nodeId,
    createdMs: yield* Clock.currentTimeMillis,
    signing: yield* makeKey("ed25519", placeOf(nodeId, "signing")),
    transfer: yield* makeKey("x25519", placeOf(nodeId, "transfer")),
  }
  yield* write(path, kept)
  return kept
})

/** The private keys as a place of sealed texts; the identity itself stays what it is. */
export const sealedIdentity = (dataFolder: string): Effect.Effect<SealedFile, never, FileSystem.FileSystem | Vault> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const vault = yield* Vault
    const path = `${dataFolder}/identity.json`
    const read = Effect.flatMap(fs.readFileString(path), Schema.decodeEffect(Kept))
    const again = Effect.fnUntraced(function*(key: typeof KeptKey.Type, place: string) {
      return { ...key, privateKey: yield* vault.seal(place, yield* vault.open(place, key.privateKey)) }
    })
    return {
      name: "identity.json",
      keys: Effect.map(
        Effect.orDie(read),
        ({ signing, transfer }) =>
          new Set([signing, transfer].map(({ privateKey }) => keyIdOf(privateKey)).filter((id) => id !== null)),
      ),
      reseal: Effect.gen(function*() {
        const kept = yield* read
        const { nodeId } = kept
        yield* write(path, {
          ...kept,
          signing: yield* again(kept.signing, placeOf(nodeId, "signing")),
          transfer: yield* again(kept.transfer, placeOf(nodeId, "transfer")),
        })
      }).pipe(Effect.provideService(FileSystem.FileSystem, fs), Effect.orDie),
    }
  })

/** The identity kept in `dataFolder`, which exists. */
export const layer = (options: {
  readonly dataFolder: string
}): Layer.Layer<NodeIdentity, IdentityUnusable, FileSystem.FileSystem | Vault> => {
  const path = `${options.dataFolder}/identity.json`
  return Layer.effect(
    NodeIdentity,
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const kept = (yield* fs.exists(path)) ?
        yield* Effect.flatMap(fs.readFileString(path), Schema.decodeEffect(Kept)) :
        yield* makeIdentity(path)
      return NodeIdentity.of({
        nodeId: kept.nodeId,
        createdMs: kept.createdMs,
        signing: yield* openKey(kept.signing, placeOf(kept.nodeId, "signing")),
        transfer: yield* openKey(kept.transfer, placeOf(kept.nodeId, "transfer")),
      })
    }).pipe(
      Effect.mapError((cause) =>
        new IdentityUnusable({ path, detail: cause._tag === "IdentityUnusable" ? cause.detail : cause.message })
      ),
    ),
  )
}
