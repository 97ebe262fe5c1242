/**
 * A document that one node has for another: signed by the one (JWS, RFC 7515, EdDSA), then encrypted to the other's transfer key (JWE,
 * RFC 7516, ECDH-ES+A256KW over X25519, A256GCM).
 *
 * Invariants
 * 1. Only the node that it was made for opens it, and only as what it is, of the node whose signing key was confirmed at pairing.
 * 2. The payload is canonical JSON (RFC 8785): the same document is the same bytes.
 * 3. What a node signs for itself ({@link signForOneself}) it believes later by that signature alone, whoever kept it meanwhile.
 */
import type { NodeId } from "#schema/common.ts"
import canonicalize from "canonicalize"
import { Effect, Schema } from "effect"
import { compactDecrypt, CompactEncrypt, CompactSign, compactVerify, importJWK } from "jose"
import { createPublicKey, sign, verify } from "node:crypto"
import { NodeIdentity } from "./identity.ts"

/** It was not made for this node, not by that node, is something else, or was changed on the way. */
export class DocumentUnusable extends Schema.TaggedError<DocumentUnusable>()("DocumentUnusable", {
  detail: Schema.String,
}) {
  override get message(): string {
    return this.detail
  }
}

const types = (name: string) => ({ signed: `${name}+jws`, sealed: `${name}+jwe` })

/** Signs as this node and encrypts to `to`. `name` is the kind of document. */
export const sealDocument = Effect.fnUntraced(
  function*(name: string, document: unknown, to: { readonly nodeId: NodeId; readonly transferKey: string }) {
    const { nodeId, signing } = yield* NodeIdentity
    const payload = canonicalize(document) ?? ""
    const { sealed, signed } = types(name)
    return yield* Effect.promise(async () => {
      const inner = await new CompactSign(Buffer.from(payload, "utf8"))
        .setProtectedHeader({ alg: "EdDSA", typ: signed, kid: nodeId })
        .sign(signing.privateKey)
      const key = await importJWK({ kty: "OKP", crv: "X25519", x: to.transferKey }, "ECDH-ES+A256KW")
      return await new CompactEncrypt(Buffer.from(inner, "utf8"))
        .setProtectedHeader({ alg: "ECDH-ES+A256KW", enc: "A256GCM", typ: sealed, cty: signed, kid: to.nodeId })
        .encrypt(key)
    })
  },
)

const base64 = (text: string): string => Buffer.from(text, "utf8").toString("base64url")

/** A document that others keep for this node, not secret: a JWS in its compact form. */
export const signForOneself = (name: string, document: unknown) =>
  Effect.map(NodeIdentity, ({ nodeId, signing }) => {
    const header = base64(JSON.stringify({ alg: "EdDSA", typ: types(name).signed, kid: nodeId }))
    const body = `${header}.${base64(canonicalize(document) ?? "")}`
    return `${body}.${sign(null, Buffer.from(body), signing.privateKey).toString("base64url")}`
  })

/** The text of what {@link signForOneself} of this node made, perhaps in another life. */
export const readOwn = Effect.fnUntraced(function*(name: string, signed: string) {
  const { nodeId, signing } = yield* NodeIdentity
  const [header = "", payload = "", signature = ""] = signed.split(".")
  const own = header === base64(JSON.stringify({ alg: "EdDSA", typ: types(name).signed, kid: nodeId })) &&
    verify(
      null,
      Buffer.from(`${header}.${payload}`),
      createPublicKey(signing.privateKey),
      Buffer.from(signature, "base64url"),
    )
  if (!own) return yield* new DocumentUnusable({ detail: "it was not made by this node, or was changed" })
  return Buffer.from(payload, "base64url").toString("utf8")
})

/** The text of what {@link sealDocument} of that node made for this one. */
export const openDocument = Effect.fnUntraced(
  function*(name: string, sealed: string, from: { readonly signingKey: string }) {
    const { transfer } = yield* NodeIdentity
    return yield* Effect.tryPromise({
      try: async () => {
        const opened = await compactDecrypt(sealed, transfer.privateKey, {
          keyManagementAlgorithms: ["ECDH-ES+A256KW"],
          contentEncryptionAlgorithms: ["A256GCM"],
        })
        const key = await importJWK({ kty: "OKP", crv: "Ed25519", x: from.signingKey }, "EdDSA")
        const verified = await compactVerify(opened.plaintext, key, { algorithms: ["EdDSA"] })
        if (verified.protectedHeader.typ !== types(name).signed) throw new Error("another kind of document")
        return Buffer.from(verified.payload).toString("utf8")
      },
      catch: () =>
        new DocumentUnusable({ detail: "it was made for another node, by another node, or changed on the way" }),
    })
  },
)
