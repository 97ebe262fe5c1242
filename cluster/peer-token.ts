/**
 * Peer tokens: JWTs (RFC 7519) by a node's own Ed25519 key, bound to the key of the node that may use them (RFC 7800, `cnf.jkt`).
 * A node gives them to those that paired with it; a member of its cluster makes its own, as everybody there knows its key.
 *
 * Invariants
 * 1. Only `typ: nightjar-peer+jwt` and `alg: EdDSA` by the one expected key pass. No access token of a user is one, and the other
 *    way round.
 * 2. Signing and reading ask no database.
 */
import { NodeId } from "#schema/common.ts"
import { Effect, Redacted, Schema } from "effect"
import { compactVerify, decodeJwt, SignJWT } from "jose"
import type { KeyObject } from "node:crypto"
import { thumbprintOf } from "./dpop.ts"

const tokenType = "nightjar-peer+jwt"
/** One of ours is below 700 bytes. */
const longestToken = 2048
/** Renewed at half of it. A node that was off for longer renews it by its key all the same. */
export const peerTokenSeconds = 86_400

const PeerTokenClaims = Schema.Struct({
  iss: NodeId,
  aud: NodeId,
  sub: NodeId,
  iat: Schema.Int,
  exp: Schema.Int,
  jti: Schema.String,
  cnf: Schema.Struct({ jkt: Schema.String }),
})
export type PeerTokenClaims = typeof PeerTokenClaims.Type
const decodeClaims = Schema.decodeUnknownEffect(PeerTokenClaims)

export const makePeerToken = (options: {
  readonly issuer: NodeId
  readonly key: KeyObject
  /** The node that will take it. */
  readonly audience: NodeId
  /** The node that may use it, by the key with this public half. */
  readonly subject: NodeId
  readonly subjectKey: string
  readonly jti: string
  readonly nowMs: number
}): Effect.Effect<Redacted.Redacted> =>
  Effect.promise(() => {
    const issuedAt = Math.floor(options.nowMs / 1000)
    return new SignJWT({ cnf: { jkt: thumbprintOf(options.subjectKey) } })
      .setProtectedHeader({ typ: tokenType, alg: "EdDSA" })
      .setIssuer(options.issuer)
      .setAudience(options.audience)
      .setSubject(options.subject)
      .setJti(options.jti)
      .setIssuedAt(issuedAt)
      .setExpirationTime(issuedAt + peerTokenSeconds)
      .sign(options.key)
  }).pipe(Effect.map(Redacted.make))

/** What a token says of itself, unproven; null where it is none. */
export const readPeerToken = (token: string): Effect.Effect<PeerTokenClaims | null> =>
  token.length > longestToken ?
    Effect.succeed(null) :
    Effect.try({ try: () => decodeJwt(token), catch: () => null }).pipe(
      Effect.flatMap(decodeClaims),
      Effect.orElseSucceed(() => null),
    )

/** Whether it was made by that key. */
export const signedBy = (token: string, key: KeyObject): Effect.Effect<boolean> =>
  Effect.tryPromise(() => compactVerify(token, key, { algorithms: ["EdDSA"] })).pipe(
    Effect.map(({ protectedHeader }) => protectedHeader.typ === tokenType),
    Effect.orElseSucceed(() => false),
  )
