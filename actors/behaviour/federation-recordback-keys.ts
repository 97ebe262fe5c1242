/**
 * Keys and signatures of record-back: the home node's transfer keys, the envelope of a data key, receipts.
 *
 * Invariants
 * 1. Transfer keys live in memory: two are valid at a time, each for {@link validMs}; a restart forgets them, and what was sent under
 *    them cannot be opened by whoever finds a disk.
 * 2. A transfer key and a receipt count only with the signature of the node whose they are (JWS, RFC 7515, EdDSA), each with its `typ`.
 * 3. An envelope (JWE, RFC 7516, ECDH-ES+A256KW and A256GCM) is bound to its reroute and to both nodes.
 */
import { dataKeyBytes } from "#cluster/recordback-seal.ts"
import { NodeId, Uuid7 } from "#schema/common.ts"
import { ReceiptClaims, TransferKey } from "#schema/federation-recordback.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Option, Redacted, Schema } from "effect"
import { compactDecrypt, CompactEncrypt, CompactSign, compactVerify, importJWK } from "jose"
import { createPublicKey, generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto"

/** A key is handed out for half of this, and opens envelopes for all of it. */
const validMs = 2 * 3_600_000
const wrapping = "ECDH-ES+A256KW"
const encryption = "A256GCM"
const keyType = "nightjar-recordback-key+jws"
const receiptType = "nightjar-recordback-receipt+jws"

const Envelope = Schema.fromJsonString(Schema.Struct({
  rerouteId: Uuid7,
  from: NodeId,
  to: NodeId,
  key: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{43}$/)),
}))
const decodeEnvelope = Schema.decodeUnknownOption(Envelope)
const { clockMs: _clockMs, signature: _signature, ...signed } = TransferKey.fields
const KeyClaims = Schema.fromJsonString(Schema.Struct(signed))
const decodeKey = Schema.decodeUnknownOption(KeyClaims)
const Claims = Schema.fromJsonString(ReceiptClaims)
const decodeReceipt = Schema.decodeUnknownOption(Claims)

/** What an envelope is for. */
interface Route {
  readonly rerouteId: string
  readonly from: NodeId
  readonly to: NodeId
}

const sign = (text: string, typ: string, key: KeyObject) =>
  Effect.promise(() => new CompactSign(Buffer.from(text)).setProtectedHeader({ alg: "EdDSA", typ }).sign(key))

/** The payload of a JWS by that key (32 bytes, base64url), null where it is not. */
const verified = (jws: string, typ: string, signingKey: string) =>
  Effect.promise(async () => {
    try {
      const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: signingKey }, format: "jwk" })
      const { payload, protectedHeader } = await compactVerify(jws, key, { algorithms: ["EdDSA"] })
      return protectedHeader.typ === typ ? new TextDecoder().decode(payload) : null
    } catch {
      return null
    }
  })

interface HeldKey {
  readonly keyId: string
  readonly privateKey: KeyObject
  readonly publicKey: string
  readonly madeMs: number
}

/** The transfer keys of a home node. */
export const makeTransferKeys = (nodeId: NodeId, signing: KeyObject) => {
  let keys: ReadonlyArray<HeldKey> = []
  const fresh = Effect.gen(function*() {
    const { privateKey, publicKey } = generateKeyPairSync("x25519")
    const keyId = yield* uuid7
    return {
      keyId,
      privateKey,
      publicKey: publicKey.export({ format: "jwk" }).x ?? "",
      madeMs: yield* Clock.currentTimeMillis,
    }
  })
  return {
    current: Effect.gen(function*() {
      const nowMs = yield* Clock.currentTimeMillis
      let [newest] = keys
      if (newest === undefined || nowMs - newest.madeMs >= validMs / 2) {
        newest = yield* fresh
        keys = [newest, ...keys].slice(0, 2)
      }
      const { keyId, madeMs, publicKey } = newest
      const claims = { nodeId, keyId, algorithm: wrapping, publicKey, expiresAt: madeMs + validMs } as const
      const text = yield* Effect.orDie(Schema.encodeEffect(KeyClaims)(claims))
      const signature = yield* sign(text, keyType, signing)
      return { ...claims, signature, clockMs: yield* Clock.currentTimeMillis } satisfies TransferKey
    }),
    /** Null: the key is not known or too old. `forged`: it does not open, or is for something else. */
    open: Effect.fnUntraced(function*(keyId: string, envelope: string, route: Route) {
      const nowMs = yield* Clock.currentTimeMillis
      const held = keys.find((one) => one.keyId === keyId && nowMs - one.madeMs < validMs)
      if (held === undefined) return null
      const text = yield* Effect.promise(async () => {
        try {
          const { plaintext } = await compactDecrypt(envelope, held.privateKey, {
            keyManagementAlgorithms: [wrapping],
            contentEncryptionAlgorithms: [encryption],
          })
          return new TextDecoder().decode(plaintext)
        } catch {
          return null
        }
      })
      const told = Option.getOrNull(decodeEnvelope(text))
      const meant = told !== null && told.rerouteId === route.rerouteId && told.from === route.from &&
        told.to === route.to
      return meant ? Redacted.make(Buffer.from(told.key, "base64url")) : "forged" as const
    }),
  }
}

/** The key as its node signed it; null where that does not hold, or it has expired. */
export const checkedTransferKey = Effect.fnUntraced(function*(told: TransferKey, nodeId: NodeId, signingKey: string) {
  const claims = Option.getOrNull(decodeKey(yield* verified(told.signature, keyType, signingKey)))
  return claims !== null && claims.nodeId === nodeId && claims.publicKey === told.publicKey &&
      claims.keyId === told.keyId && claims.expiresAt === told.expiresAt ?
    claims :
    null
})

/** A fresh data key and its envelope. */
export const makeDataKey = Effect.fnUntraced(function*(key: Pick<TransferKey, "keyId" | "publicKey">, route: Route) {
  // The one randomness that must not come from a seed.
  const dataKey = randomBytes(dataKeyBytes)
  const text = yield* Effect.orDie(Schema.encodeEffect(Envelope)({ ...route, key: dataKey.toString("base64url") }))
  const envelope = yield* Effect.promise(async () => {
    const recipient = await importJWK({ kty: "OKP", crv: "X25519", x: key.publicKey }, wrapping)
    return new CompactEncrypt(Buffer.from(text)).setProtectedHeader({ alg: wrapping, enc: encryption, kid: key.keyId })
      .encrypt(recipient)
  })
  return { dataKey: Redacted.make(dataKey), envelope }
})

export const signReceipt = (claims: ReceiptClaims, signing: KeyObject): Effect.Effect<string> =>
  Effect.flatMap(Effect.orDie(Schema.encodeEffect(Claims)(claims)), (text) => sign(text, receiptType, signing))

/** What a receipt by that node says; null where it is none. */
export const readReceipt = (receipt: string, signingKey: string): Effect.Effect<ReceiptClaims | null> =>
  Effect.map(verified(receipt, receiptType, signingKey), (text) => Option.getOrNull(decodeReceipt(text)))
