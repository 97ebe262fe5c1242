/** What this installation signs for the vendor: the request for a licence, and the receipt of one that was given back. */
import { NodeIdentity } from "#cluster/identity.ts"
import { LicenseRelease, LicenseRequest } from "#schema/license.ts"
import { uuid7 } from "#schema/uuid.ts"
import canonicalize from "canonicalize"
import { Clock, Effect, Schema } from "effect"
import { sign } from "node:crypto"

const RequestJson = Schema.toCodecJson(LicenseRequest)
const ReleaseJson = Schema.toCodecJson(LicenseRelease)

export const makePapers = Effect.map(NodeIdentity, ({ nodeId, signing }) => {
  const publicKey = { kty: "OKP" as const, crv: "Ed25519" as const, x: signing.publicKey }
  /** Ed25519 over the canonical JSON (RFC 8785) of everything but the signature, in base64url. */
  const signatureOf = (unsigned: object): string =>
    sign(null, Buffer.from(canonicalize(unsigned) ?? "", "utf8"), signing.privateKey).toString("base64url")
  const withoutSignature = ({ signature: _signature, ...rest }: Record<string, unknown>) => rest
  return {
    request: Effect.fnUntraced(function*(hardwareId: string, channels: number) {
      const paper: LicenseRequest = {
        format: "nightjar-license-request",
        version: 1,
        requestId: yield* uuid7,
        createdAt: yield* Clock.currentTimeMillis,
        nodeId,
        hardwareId,
        usage: { channels },
        publicKey,
        signature: "",
      }
      const wire = yield* Effect.orDie(Schema.encodeEffect(RequestJson)(paper))
      return { ...paper, signature: signatureOf(withoutSignature(wire as unknown as Record<string, unknown>)) }
    }),
    receipt: Effect.fnUntraced(function*(hardwareId: string, licenseId: string | null) {
      const paper: LicenseRelease = {
        format: "nightjar-license-release",
        version: 1,
        licenseId,
        releasedAt: yield* Clock.currentTimeMillis,
        nodeId,
        hardwareId,
        publicKey,
        signature: "",
      }
      const wire = yield* Effect.orDie(Schema.encodeEffect(ReleaseJson)(paper))
      return { ...paper, signature: signatureOf(withoutSignature(wire as unknown as Record<string, unknown>)) }
    }),
  }
})
