/**
 * Secrets under a person's passphrase, for documents that leave the product.
 *
 * Invariants
 * 1. Key: scrypt (RFC 7914) with N = 65,536, r = 8, p = 1, which takes 64 MiB and a fifth of a second; one at a time, off the main
 *    thread. No other cost is accepted from a document, so that none can ask for more memory.
 * 2. Seal: AES-256-GCM (NIST SP 800-38D), a random nonce each, what it is for authenticated with it. 10,000 cameras of 64 channels
 *    stay far below the 2^32 seals that one key is good for.
 * 3. No error carries a part of a secret.
 */
import type { Sealing } from "#schema/camera-backup.ts"
import { Effect, Redacted, Semaphore } from "effect"
import { createCipheriv, createDecipheriv, randomBytes, scrypt } from "node:crypto"

const cost = { n: 65_536, r: 8, p: 1 } as const
const [saltBytes, keyBytes, nonceBytes, tagBytes] = [16, 32, 12, 16] as const
const checkText = "nightjar cameras"
const checkContext = "check"
const one = Semaphore.makeUnsafe(1)

export interface PassphraseSeal {
  readonly sealing: Sealing
  readonly seal: (context: string, secret: Redacted.Redacted) => string
  /** Null: it is not a seal of this passphrase for this context. */
  readonly open: (context: string, sealed: string) => Redacted.Redacted | null
}

const derive = (passphrase: Redacted.Redacted, salt: Buffer) =>
  one.withPermits(1)(Effect.callback<Buffer>((resume) => {
    const { n: N, p, r } = cost
    // What was typed on two keyboards is one passphrase: NFKC (NIST SP 800-63B).
    const text = decodeURIComponent(Redacted.value(passphrase)).normalize("NFKC")
    scrypt(text, salt, keyBytes, { N, r, p, maxmem: 2 * 128 * N * r }, (error, key) => {
      resume(error === null ? Effect.succeed(key) : Effect.die(error))
    })
  }))

const sealWith = (key: Buffer) => (context: string, secret: Redacted.Redacted): string => {
  const nonce = randomBytes(nonceBytes)
  const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(context))
  const text = Buffer.concat([cipher.update(Redacted.value(secret), "utf8"), cipher.final()])
  return Buffer.concat([nonce, text, cipher.getAuthTag()]).toString("base64url")
}

const openWith = (key: Buffer) => (context: string, sealed: string): Redacted.Redacted | null => {
  const bytes = Buffer.from(sealed, "base64url")
  if (bytes.length < nonceBytes + tagBytes) return null
  const decipher = createDecipheriv("aes-256-gcm", key, bytes.subarray(0, nonceBytes)).setAAD(Buffer.from(context))
  decipher.setAuthTag(bytes.subarray(-tagBytes))
  try {
    const text = Buffer.concat([decipher.update(bytes.subarray(nonceBytes, -tagBytes)), decipher.final()])
    return Redacted.make(text.toString("utf8"))
  } catch {
    return null
  }
}

/** For a new document. */
export const newSeal = Effect.fnUntraced(function*(passphrase: Redacted.Redacted): Effect.fn.Return<PassphraseSeal> {
  const salt = randomBytes(saltBytes)
  const key = yield* derive(passphrase, salt)
  const check = sealWith(key)(checkContext, Redacted.make(checkText))
  return {
    sealing: { kdf: "scrypt", ...cost, salt: salt.toString("base64url"), cipher: "A256GCM", check },
    seal: sealWith(key),
    open: openWith(key),
  }
})

/** For a document that is read; null: the passphrase is not its own. */
export const knownSeal = Effect.fnUntraced(
  function*(passphrase: Redacted.Redacted, sealing: Sealing): Effect.fn.Return<PassphraseSeal | null> {
    const key = yield* derive(passphrase, Buffer.from(sealing.salt, "base64url"))
    const told = openWith(key)(checkContext, sealing.check)
    if (told === null || Redacted.value(told) !== checkText) return null
    return { sealing, seal: sealWith(key), open: openWith(key) }
  },
)
