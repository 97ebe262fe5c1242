/**
 * The key of the cluster: 32 random bytes that every member has and nobody else. What stands sealed in the shared database is sealed
 * under it, so that any member can serve what another one entered, and with it members tell each other from whoever merely reaches
 * the database.
 *
 * Kept in `cluster.json` of the data folder, sealed by the node's own vault, so that a key that somebody put into the database
 * does not replace it.
 *
 * Invariants
 * 1. Generations of one cluster's key grow by one, and each is proven with the one before (`succession`): a node that has a
 *    key takes no other that its holders did not make.
 * 2. Nothing is sealed under a key that is not in force by the database (`current`); everything of before still opens.
 * 3. A key travels only in an envelope for one member (JWE, RFC 7516; ECDH-ES+A256KW over X25519), or under the secret that the operator gave
 *    to every node.
 */
import { KeyNotKept } from "#schema/federation-member.ts"
import { keyIdOf, type SealedFile, type SharedKeyIds, Vault } from "#schema/vault.ts"
import { Effect, FileSystem, Redacted, Schema, SubscriptionRef } from "effect"
import { compactDecrypt, CompactEncrypt } from "jose"
import { createHmac, createPublicKey, hkdfSync, type KeyObject, randomBytes, timingSafeEqual } from "node:crypto"
import { dirname } from "node:path"
import { deriveKey, type SealKey, vaultOf } from "./vault.ts"

export interface ClusterKey {
  readonly generation: number
  readonly secret: Buffer
  /** Proof by the key before; empty for the first. */
  readonly succession: string
}

/** What this node has of a cluster's keys. */
export interface Held {
  readonly clusterId: string
  /** The newest first, at most {@link mostKeys}. */
  readonly keys: readonly [ClusterKey, ...ReadonlyArray<ClusterKey>]
  /** The newest is in force by the database: this node is a member. */
  readonly current: boolean
}

/** Null where this node never was a member of anything. */
export type Keyring = SubscriptionRef.SubscriptionRef<Held | null>

/** A node that missed more changes than this must be approved anew. */
const mostKeys = 8
const keyBytes = 32

const code = (key: ClusterKey, purpose: string, parts: ReadonlyArray<unknown>): string =>
  createHmac("sha256", Buffer.from(hkdfSync("sha256", key.secret, "", `nightjar ${purpose} v1`, keyBytes)))
    .update(JSON.stringify(parts)).digest("base64url")

const same = (a: string, b: string): boolean => {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}

const sealKeys = new WeakMap<Buffer, SealKey>()
const sealKeyOf = ({ secret }: ClusterKey): SealKey => {
  const known = sealKeys.get(secret)
  if (known !== undefined) return known
  const made = deriveKey(secret)
  sealKeys.set(secret, made)
  return made
}
export const idOf = (key: ClusterKey): string => sealKeyOf(key).id

/** The first key of a new cluster. */
export const firstKey = (): ClusterKey => ({ generation: 1, secret: randomBytes(keyBytes), succession: "" })

const successionOf = (clusterId: string, before: ClusterKey, next: Pick<ClusterKey, "generation" | "secret">) =>
  code(before, "succession", [clusterId, next.generation, deriveKey(next.secret).id])

/** The keys with a new one in front. */
export const withNext = ({ clusterId, keys }: Held): Held["keys"] => {
  const next = { generation: keys[0].generation + 1, secret: randomBytes(keyBytes) }
  return [{ ...next, succession: successionOf(clusterId, keys[0], next) }, ...keys.slice(0, mostKeys - 1)]
}

/** Whether `next` comes from those who have `held`: each key after the newest that is held is proven by the one before. */
export const succeeds = (held: Held, next: Held["keys"]): boolean => {
  const newest = held.keys[0]
  const from = next.findIndex(({ generation, secret }) =>
    generation === newest.generation && secret.equals(newest.secret)
  )
  return from >= 0 && next.slice(0, from).every((key, n) => {
    const before = next[n + 1]!
    return key.generation === before.generation + 1 &&
      same(key.succession, successionOf(held.clusterId, before, key))
  })
}

/** What makes a node a member. */
export interface Identified {
  readonly nodeId: string
  readonly signingKey: string
  readonly transferKey: string
}

/** Proof, by the newest key, that these keys are a member's. */
export const admissionOf = ({ clusterId, keys }: Held, { nodeId, signingKey, transferKey }: Identified): string =>
  code(keys[0], "admission", [clusterId, keys[0].generation, nodeId, signingKey, transferKey])

export const isAdmitted = (held: Held | null, node: Identified, admission: string | null): boolean =>
  held?.current === true && admission !== null && same(admission, admissionOf(held, node))

const Payload = Schema.fromJsonString(
  Schema.NonEmptyArray(Schema.Struct({
    generation: Schema.Int.check(Schema.isGreaterThan(0)),
    secret: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{43}$/)),
    succession: Schema.String,
  })).check(Schema.isMaxLength(mostKeys)),
)

const payloadOf = (keys: Held["keys"]): string =>
  JSON.stringify(keys.map((key) => ({ ...key, secret: key.secret.toString("base64url") })))

const keysOf = (text: string): Held["keys"] | null => {
  const read = Schema.decodeUnknownOption(Payload)(text)
  if (read._tag === "None") return null
  const [newest, ...older] = read.value.map((key) => ({ ...key, secret: Buffer.from(key.secret, "base64url") }))
  return [newest!, ...older]
}

/** The keys in an envelope that only the owner of the transfer key opens. */
export const wrap = (clusterId: string, keys: Held["keys"], to: Identified): Effect.Effect<string> =>
  Effect.promise(() =>
    new CompactEncrypt(Buffer.from(payloadOf(keys)))
      .setProtectedHeader({ alg: "ECDH-ES+A256KW", enc: "A256GCM", kid: to.nodeId, cluster: clusterId })
      .encrypt(createPublicKey({ key: { kty: "OKP", crv: "X25519", x: to.transferKey }, format: "jwk" }))
  )

/** Null for what is no envelope for this node and cluster. */
export const unwrap = (
  clusterId: string,
  nodeId: string,
  transfer: KeyObject,
  envelope: string,
): Effect.Effect<Held["keys"] | null> =>
  Effect.tryPromise(() =>
    compactDecrypt(envelope, transfer, {
      keyManagementAlgorithms: ["ECDH-ES+A256KW"],
      contentEncryptionAlgorithms: ["A256GCM"],
    })
  ).pipe(
    Effect.map(({ plaintext, protectedHeader }) =>
      protectedHeader.kid === nodeId && protectedHeader["cluster"] === clusterId ?
        keysOf(Buffer.from(plaintext).toString("utf8")) :
        null
    ),
    Effect.catch(() => Effect.succeed(null)),
  )

/** A secret that the operator gave to every node: who has it is a member. */
export interface JoinSecret {
  readonly id: string
  readonly seal: (clusterId: string, keys: Held["keys"]) => Effect.Effect<string>
  readonly open: (clusterId: string, envelope: string) => Effect.Effect<Held["keys"] | null>
}

/** @param secret 32 bytes. */
export const joinSecretOf = (secret: Buffer): JoinSecret => {
  // Another key than the one that seals where the same bytes are a master key.
  const key = deriveKey(Buffer.from(hkdfSync("sha256", secret, "", "nightjar join v1", keyBytes)))
  const vault = vaultOf({ sealing: key, opening: new Map([[key.id, key]]) })
  const context = (clusterId: string) => `cluster/${clusterId}/share`
  return {
    id: key.id,
    seal: (clusterId, keys) => vault.seal(context(clusterId), Redacted.make(payloadOf(keys))),
    open: (clusterId, envelope) =>
      vault.open(context(clusterId), envelope).pipe(
        Effect.map((text) => keysOf(Redacted.value(text))),
        Effect.catch(() => Effect.succeed(null)),
      ),
  }
}

/** Ids for whoever looks after what is sealed. */
export const idsOf = (held: Held | null): SharedKeyIds | null =>
  held?.current === true ? { sealing: idOf(held.keys[0]), older: held.keys.slice(1).map(idOf) } : null

/** Seals for the cluster while this node is a member, by itself before; opens what either sealed. */
export const sharedVault = (own: Vault["Service"], keyring: Keyring): Vault["Service"] => {
  const vaultFor = ({ keys }: Held) =>
    vaultOf({ sealing: sealKeyOf(keys[0]), opening: new Map(keys.map((key) => [idOf(key), sealKeyOf(key)])) })
  return {
    seal: (context, secret) =>
      Effect.flatMap(
        SubscriptionRef.get(keyring),
        (held) => (held?.current === true ? vaultFor(held) : own).seal(context, secret),
      ),
    open: (context, sealed) =>
      Effect.flatMap(SubscriptionRef.get(keyring), (held) => {
        const id = keyIdOf(sealed)
        return (held?.keys.some((key) => idOf(key) === id) === true ? vaultFor(held) : own).open(context, sealed)
      }),
  }
}

const Kept = Schema.fromJsonString(Schema.Struct({
  version: Schema.Literal(1),
  clusterId: Schema.String,
  /** The keys as JSON, sealed. */
  keys: Schema.String,
}))

const place = (clusterId: string) => `cluster/${clusterId}/keys`

const write = Effect.fnUntraced(function*(path: string, kept: typeof Kept.Type) {
  const fs = yield* FileSystem.FileSystem
  const draft = `${path}.new`
  const text = yield* Schema.encodeEffect(Kept)(kept)
  yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(draft, { flag: "w", mode: 0o600 })
    yield* file.writeAll(Buffer.from(`${text}\n`, "utf8"))
    yield* file.sync
  }))
  yield* fs.rename(draft, path)
  yield* Effect.scoped(Effect.flatMap(fs.open(dirname(path), { flag: "r" }), (folder) => folder.sync))
})

const pathIn = (dataFolder: string) => `${dataFolder}/cluster.json`

/** The keys kept in a data folder: null where there are none; one that cannot be opened is told, and counts as none. */
export const load = Effect.fnUntraced(function*(dataFolder: string) {
  const fs = yield* FileSystem.FileSystem
  const vault = yield* Vault
  const path = pathIn(dataFolder)
  if (!(yield* fs.exists(path))) return null
  return yield* Effect.gen(function*() {
    const kept = yield* Effect.flatMap(fs.readFileString(path), Schema.decodeEffect(Kept))
    const keys = keysOf(Redacted.value(yield* vault.open(place(kept.clusterId), kept.keys)))
    const held: Held | null = keys === null ? null : { clusterId: kept.clusterId, keys, current: false }
    return held
  }).pipe(
    Effect.catch((error) =>
      Effect.as(
        Effect.logError(
          `The cluster's key in ${path} cannot be used, this node must be approved anew: ${error.message}`,
        ),
        null,
      )
    ),
  )
})

/** On the disk when it returns. */
export const save = Effect.fnUntraced(function*(dataFolder: string, { clusterId, keys }: Held) {
  const vault = yield* Vault
  const sealed = yield* vault.seal(place(clusterId), Redacted.make(payloadOf(keys)))
  yield* write(pathIn(dataFolder), { version: 1, clusterId, keys: sealed })
}, Effect.mapError((error) => new KeyNotKept({ detail: error.message })))

/** The keys as a place of sealed texts. `vault` is the node's own. */
export const sealedKeyring = (
  dataFolder: string,
  vault: Vault["Service"],
): Effect.Effect<SealedFile, never, FileSystem.FileSystem> =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const path = pathIn(dataFolder)
    const read = Effect.flatMap(fs.readFileString(path), Schema.decodeEffect(Kept))
    return {
      name: "cluster.json",
      keys: Effect.match(read, {
        onFailure: () => new Set<string>(),
        onSuccess: ({ keys }) => new Set([keyIdOf(keys)].filter((id) => id !== null)),
      }),
      reseal: Effect.gen(function*() {
        const kept = yield* read
        const context = place(kept.clusterId)
        yield* write(path, { ...kept, keys: yield* vault.seal(context, yield* vault.open(context, kept.keys)) })
      }).pipe(Effect.provideService(FileSystem.FileSystem, fs), Effect.orDie),
    }
  })
