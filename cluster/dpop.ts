/**
 * Proof of possession between nodes (DPoP, RFC 9449): a JWT a request, signed by the node's Ed25519 key (RFC 8037) over the method,
 * the address, the token and a nonce of the server.
 *
 * Invariants
 * 1. Only `typ: dpop+jwt`, `alg: EdDSA` and the one expected key pass, whatever the proof's own header asks for.
 * 2. A proof is fresh because its nonce is, and the server made that one: clocks are never compared. `iat` is a hint for people.
 * 3. A proof passes once: its `jti` is remembered for as long as its nonce holds. Memory is bounded by changing the nonce.
 * 4. Reading is total: what cannot be read is {@link ProofRefused}.
 */
import { Effect, Schema } from "effect"
import { compactVerify, decodeProtectedHeader, SignJWT } from "jose"
import { createHash, createPublicKey, type KeyObject, randomBytes } from "node:crypto"

const proofType = "dpop+jwt"
/** One of ours is below 700 bytes. */
const longestProof = 4096

/** What a proof says. */
const ProofClaims = Schema.Struct({
  jti: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{16,64}$/)),
  htm: Schema.String.check(Schema.isMaxLength(16)),
  htu: Schema.String.check(Schema.isMaxLength(2048)),
  iat: Schema.Number,
  nonce: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(64))),
  /** Of the access token. */
  ath: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(64))),
  /** Name of the user on whose behalf the node asks; a claim of ours. */
  obo: Schema.optionalKey(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(128))),
})
export type ProofClaims = typeof ProofClaims.Type
const decodeClaims = Schema.decodeUnknownEffect(Schema.fromJsonString(ProofClaims))

const ProofKey = Schema.Struct({ kty: Schema.Literal("OKP"), crv: Schema.Literal("Ed25519"), x: Schema.String })
const decodeKey = Schema.decodeUnknownEffect(ProofKey)

/** Why a proof does not count; the reason is no secret. */
export class ProofRefused extends Schema.TaggedError<ProofRefused>()("ProofRefused", {
  reason: Schema.Literals([
    "missing",
    "malformed", // not a proof of this kind
    "key", // of another key
    "signature",
    "request", // made for another method or address
    "token", // made for another token
    "nonce", // without a nonce that holds
    "replayed",
  ]),
}) {}

const refuse = (reason: ProofRefused["reason"]) => new ProofRefused({ reason })

/** A verifying key of 32 bytes in base64url; throws where it is none. */
export const publicKeyOf = (x: string): KeyObject =>
  createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x }, format: "jwk" })

/** JWK thumbprint (RFC 7638, RFC 8037) of an Ed25519 key: what a person compares, and what a token is bound to (`cnf.jkt`). */
export const thumbprintOf = (x: string): string =>
  createHash("sha256").update(JSON.stringify({ crv: "Ed25519", kty: "OKP", x })).digest("base64url")

/** `ath` of RFC 9449, section 4.2. */
const hashOf = (token: string) => createHash("sha256").update(token, "ascii").digest("base64url")

/** The address as a proof names it: without query and fragment (RFC 9449, section 4.2), scheme and host in lower case. */
export const targetOf = (address: string): string => {
  const url = URL.parse(address)
  return url === null ? "" : `${url.origin}${url.pathname}`
}

export interface ProofRequest {
  readonly key: { readonly privateKey: KeyObject; readonly publicKey: string }
  readonly method: string
  /** The whole address. */
  readonly address: string
  /** Null where it is asked without one: at a claim. */
  readonly token: string | null
  readonly nonce: string | null
  readonly onBehalfOf: string | null
  readonly jti: string
  readonly nowMs: number
}

/** The text of the header `DPoP`. */
export const makeProof = (request: ProofRequest): Effect.Effect<string> =>
  Effect.promise(() => {
    const { address, jti, key, method, nonce, nowMs, onBehalfOf, token } = request
    const claims = {
      jti,
      htm: method,
      htu: targetOf(address),
      ...token === null ? {} : { ath: hashOf(token) },
      ...nonce === null ? {} : { nonce },
      ...onBehalfOf === null ? {} : { obo: onBehalfOf.slice(0, 128) },
    }
    return new SignJWT(claims)
      .setProtectedHeader({ typ: proofType, alg: "EdDSA", jwk: { kty: "OKP", crv: "Ed25519", x: key.publicKey } })
      .setIssuedAt(Math.floor(nowMs / 1000))
      .sign(key.privateKey)
  })

export interface ProofExpected {
  /** The key that it must be made by, as {@link publicKeyOf} answers it, and its text. */
  readonly key: KeyObject
  readonly publicKey: string
  readonly method: string
  /** The address that was asked, as {@link targetOf} tells it. */
  readonly target: string
  readonly token: string | null
}

/** What a proof says, if it was made by that key for that request and token. Whether it is fresh is {@link Nonces}' to say. */
export const verifyProof = Effect.fnUntraced(function*(text: string, expected: ProofExpected) {
  if (text === "") return yield* refuse("missing")
  if (text.length > longestProof) return yield* refuse("malformed")
  const header = yield* Effect.try({ try: () => decodeProtectedHeader(text), catch: () => refuse("malformed") })
  if (header.typ !== proofType || header.alg !== "EdDSA") return yield* refuse("malformed")
  const key = yield* Effect.mapError(decodeKey(header.jwk), () => refuse("malformed"))
  if (key.x !== expected.publicKey) return yield* refuse("key")
  const { payload } = yield* Effect.tryPromise({
    try: () => compactVerify(text, expected.key, { algorithms: ["EdDSA"] }),
    catch: () => refuse("signature"),
  })
  const claims = yield* Effect.mapError(decodeClaims(Buffer.from(payload).toString("utf8")), () => refuse("malformed"))
  if (claims.htm !== expected.method || targetOf(claims.htu) !== expected.target || expected.target === "") {
    return yield* refuse("request")
  }
  if ((claims.ath ?? null) !== (expected.token === null ? null : hashOf(expected.token))) return yield* refuse("token")
  return claims
})

/** A nonce holds for two to three times this long. */
const nonceLifeMs = 60_000
/** Nonces that hold at once. */
const generations = 3
/** Proofs by one nonce, some 100 bytes each; then comes the next nonce. */
const mostProofs = 16_384

interface Generation {
  readonly nonce: string
  readonly sinceMs: number
  readonly seen: Set<string>
}

/** The nonces of a server, and which proofs were made with them. */
export interface Nonces {
  /** The one to be used now. */
  readonly current: (nowMs: number) => string
  /** Takes a proof whose everything else is good. */
  readonly take: (claims: ProofClaims, by: string, nowMs: number) => Effect.Effect<void, ProofRefused>
}

/** `life` and `most` as above, for tests. `nowMs` may be any clock that does not go back. */
export const makeNonces = (lifeMs = nonceLifeMs, most = mostProofs): Nonces => {
  let known: ReadonlyArray<Generation> = []
  const newest = (nowMs: number): Generation => {
    const [first] = known
    // A clock that was set back makes a new one too, rather than one that never ends.
    const age = first === undefined ? Infinity : nowMs - first.sinceMs
    if (first !== undefined && age >= 0 && age < lifeMs && first.seen.size < most) return first
    // Unpredictable to whoever could make proofs beforehand: not from a seed.
    const next = { nonce: randomBytes(18).toString("base64url"), sinceMs: nowMs, seen: new Set<string>() }
    const fresh = known.filter(({ sinceMs }) => nowMs - sinceMs < lifeMs * generations)
    known = [next, ...fresh].slice(0, generations)
    return next
  }
  return {
    current: (nowMs) => newest(nowMs).nonce,
    take: ({ jti, nonce }, by, nowMs) =>
      Effect.suspend(() => {
        newest(nowMs)
        const generation = known.find((one) => one.nonce === nonce && nowMs - one.sinceMs < lifeMs * generations)
        // An older one that is full takes no more: whoever asks is given the newest.
        if (generation === undefined || generation.seen.size >= most) return Effect.fail(refuse("nonce"))
        const name = `${by}\n${jti}`
        if (generation.seen.has(name)) return Effect.fail(refuse("replayed"))
        generation.seen.add(name)
        return Effect.void
      }),
  }
}
