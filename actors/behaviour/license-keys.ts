/**
 * The vendor's signatures: licences, and what the licence server says of them. Both are compact JWS (RFC 7515) by EdDSA
 * (RFC 8037) and differ by their `typ`.
 *
 * Invariants
 * 1. Only `alg: EdDSA` passes, only with a key of the configured set (RFC 7517) that the header's `kid` names, and only with the
 *    `typ` that is expected: a statement is no licence.
 * 2. A set that cannot be read is a set without keys and a warning: a start is not stopped by it.
 */
import { PublicJwk } from "#schema/auth.ts"
import { Instant } from "#schema/common.ts"
import { LicenseClaims, LicenseId, LicenseRejected } from "#schema/license.ts"
import { Effect, FileSystem, Schema } from "effect"
import { compactVerify, type CryptoKey, decodeProtectedHeader, importJWK } from "jose"

const licenseType = "nightjar-license+jws"
const statementType = "nightjar-license-statement+jws"

/** What the licence server says of a lease. */
const Statement = Schema.Struct({
  licenseId: LicenseId,
  /** The one we asked with: an old answer does not pass for a new one. */
  nonce: Schema.String.check(Schema.isMaxLength(128)),
  state: Schema.Literals(["active", "suspended", "revoked"]),
  /** The server's time. */
  time: Instant,
})
export type Statement = typeof Statement.Type

/** Largest key set that is read; a key has about 150 bytes. */
const largestSet = 64 * 1024
const KeySet = Schema.fromJsonString(Schema.Struct({
  keys: Schema.Array(Schema.Struct({
    ...PublicJwk.fields,
    alg: Schema.optionalKey(PublicJwk.fields.alg),
    use: Schema.optionalKey(PublicJwk.fields.use),
  })).check(Schema.isMaxLength(32)),
}))

export type VendorKeys = ReadonlyMap<string, CryptoKey | Uint8Array>

/** The keys in a file of the operator; none where there is no file. */
export const readVendorKeys = Effect.fnUntraced(function*(path: string | null) {
  if (path === null) return new Map() as VendorKeys
  const fs = yield* FileSystem.FileSystem
  return yield* Effect.gen(function*() {
    const { size } = yield* fs.stat(path)
    if (size > largestSet) return yield* Effect.fail(new Error(`it has more than ${largestSet} bytes`))
    const { keys } = yield* Effect.flatMap(fs.readFileString(path), Schema.decodeEffect(KeySet))
    const imported = yield* Effect.forEach(
      keys,
      (jwk) => Effect.map(Effect.tryPromise(() => importJWK(jwk, "EdDSA")), (key) => [jwk.kid, key] as const),
    )
    const found: VendorKeys = new Map(imported)
    return found
  }).pipe(
    Effect.catch((error) =>
      Effect.as(
        Effect.logWarning(`The vendor's keys (${path}) cannot be read, no licence can be checked: ${error.message}`),
        new Map() as VendorKeys,
      )
    ),
  )
})

const rejected = (reason: LicenseRejected["reason"], detail: string) => new LicenseRejected({ reason, detail })

const open = Effect.fnUntraced(
  function*<A>(
    text: string,
    type: string,
    payload: Schema.Decoder<A>,
    keys: VendorKeys,
  ): Effect.fn.Return<A, LicenseRejected> {
    const trimmed = text.trim()
    const header = yield* Effect.try({
      try: () => decodeProtectedHeader(trimmed),
      catch: () => rejected("malformed", "it is not a signed text"),
    })
    if (header.typ !== type) return yield* rejected("forged", `it is of the type ${header.typ ?? "none"}, not ${type}`)
    const key = header.kid === undefined ? undefined : keys.get(header.kid)
    if (key === undefined) {
      const known = keys.size === 0 ?
        "this installation trusts no vendor key" :
        "it is signed by a key that is not trusted here"
      return yield* rejected("unknownKey", known)
    }
    const verified = yield* Effect.tryPromise({
      try: () => compactVerify(trimmed, key, { algorithms: ["EdDSA"] }),
      catch: () => rejected("forged", "its signature is wrong"),
    })
    return yield* Schema.decodeUnknownEffect(Schema.fromJsonString(payload as Schema.Codec<A, unknown>))(
      new TextDecoder().decode(verified.payload),
    ).pipe(Effect.mapError((error) => rejected("malformed", error.message.slice(0, 300))))
  },
)

export const openLicense = (text: string, keys: VendorKeys) => open(text, licenseType, LicenseClaims, keys)
export const openStatement = (text: string, keys: VendorKeys) => open(text, statementType, Statement, keys)
