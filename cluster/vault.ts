/**
 * Secrets at rest under the node's master key: AES-256-GCM (NIST SP 800-38D).
 *
 * A sealed text is `nj1.<key id>.<nonce>.<ciphertext and tag>`, the latter two in base64url (RFC 4648, section 5). Version, key
 * id and context are authenticated with it.
 *
 * Invariants
 * 1. The master key is 32 bytes: given by the operator, or made at first start and kept in `master.key` of the data folder,
 *    which only its owner may read. An existing key file is never overwritten.
 * 2. The key that seals is derived from the master key (HKDF, RFC 5869), so the master key itself meets no data.
 * 3. A nonce is 96 random bits: good for 2^32 seals under one key, far beyond what a node seals in its life.
 * 4. Where the operator gives a key and the file is there too, what was sealed under the file's key still opens: that is how
 *    one moves from the one to the other.
 */
import { Vault, VaultError } from "#schema/vault.ts"
import { Effect, FileSystem, Layer, type PlatformError, Redacted, Schema } from "effect"
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from "node:crypto"

/** The master key cannot be had; the node must not start, or it would make secrets nobody can read again. */
export class MasterKeyUnusable extends Schema.TaggedError<MasterKeyUnusable>()("MasterKeyUnusable", {
  /** The file, or `option` where the key was given. */
  source: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `The master key (${this.source}) cannot be used: ${this.detail}`
  }
}

export interface VaultOptions {
  /** Folder of the node; exists. */
  readonly dataFolder: string
  /** 32 bytes as 64 hexadecimal digits or as base64 or base64url; `null` to keep one in the data folder. */
  readonly masterKey: Redacted.Redacted | null
}

const version = "nj1"
const keyBytes = 32
const nonceBytes = 12
const tagBytes = 16

/** 32 bytes from their text, `null` if it is not that. */
export const parseMasterKey = (text: string): Buffer | null => {
  const trimmed = text.trim()
  if (/^[0-9a-fA-F]{64}$/.test(trimmed)) return Buffer.from(trimmed, "hex")
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(trimmed)) return null
  const bytes = Buffer.from(trimmed, "base64url")
  return bytes.length === keyBytes ? bytes : null
}

interface Key {
  readonly id: string
  readonly secret: Buffer
}

const deriveKey = (master: Buffer): Key => ({
  id: createHash("sha256").update("nightjar key id\0").update(master).digest("hex").slice(0, 12),
  secret: Buffer.from(hkdfSync("sha256", master, "", "nightjar seal v1", keyBytes)),
})

const associated = (keyId: string, context: string) => Buffer.from(`${version}\0${keyId}\0${context}`, "utf8")

const make = (sealing: Key, opening: ReadonlyMap<string, Key>): Vault["Service"] => ({
  seal: (context, secret) =>
    Effect.sync(() => {
      // The one randomness that must not come from a seed: a repeated nonce would give the key away.
      const nonce = randomBytes(nonceBytes)
      const cipher = createCipheriv("aes-256-gcm", sealing.secret, nonce).setAAD(associated(sealing.id, context))
      const sealed = Buffer.concat([cipher.update(Redacted.value(secret), "utf8"), cipher.final(), cipher.getAuthTag()])
      return [version, sealing.id, nonce.toString("base64url"), sealed.toString("base64url")].join(".")
    }),
  open: (context, text) =>
    Effect.suspend(() => {
      const parts = /^nj1\.([0-9a-f]{12})\.([A-Za-z0-9_-]{16})\.([A-Za-z0-9_-]{22,})$/.exec(text)
      if (parts === null) return Effect.fail(new VaultError({ reason: "malformed", context }))
      const [, keyId, nonce, body] = parts as unknown as [string, string, string, string]
      const key = opening.get(keyId)
      if (key === undefined) return Effect.fail(new VaultError({ reason: "unknownKey", context }))
      return Effect.try({
        try: () => {
          const sealed = Buffer.from(body, "base64url")
          const end = sealed.length - tagBytes
          const decipher = createDecipheriv("aes-256-gcm", key.secret, Buffer.from(nonce, "base64url"), {
            authTagLength: tagBytes,
          })
            .setAAD(associated(keyId, context))
            .setAuthTag(sealed.subarray(end))
          const secret = Buffer.concat([decipher.update(sealed.subarray(0, end)), decipher.final()])
          return Redacted.make(secret.toString("utf8"))
        },
        catch: () => new VaultError({ reason: "forged", context }),
      })
    }),
})

/** The key of the file, `null` where there is no file. Closes a file that others could read. */
const readKeyFile = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  if (!(yield* fs.exists(path))) return null
  const { mode } = yield* fs.stat(path)
  if ((mode & 0o077) !== 0) {
    yield* Effect.logWarning(`${path} could be read by others; closed now. Consider a new master key.`)
    yield* fs.chmod(path, 0o600)
  }
  const key = parseMasterKey(yield* fs.readFileString(path))
  return key ?? (yield* new MasterKeyUnusable({ source: path, detail: "it does not hold 32 bytes in base64url" }))
})

const makeKeyFile = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const key = randomBytes(keyBytes)
  yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(path, { flag: "wx", mode: 0o600 })
    yield* file.writeAll(Buffer.from(`${key.toString("base64url")}\n`, "utf8"))
    yield* file.sync
  }))
  return key
})

const unusable = (source: string) => (error: PlatformError.PlatformError) =>
  new MasterKeyUnusable({ source, detail: error.message })

/** The node's vault. */
export const layer = (options: VaultOptions): Layer.Layer<Vault, MasterKeyUnusable, FileSystem.FileSystem> =>
  Layer.effect(
    Vault,
    Effect.gen(function*() {
      const path = `${options.dataFolder}/master.key`
      const kept = yield* readKeyFile(path).pipe(
        Effect.catchTag("PlatformError", (error) => Effect.fail(unusable(path)(error))),
      )
      const keys = new Map<string, Key>()
      const remember = (master: Buffer) => {
        const key = deriveKey(master)
        keys.set(key.id, key)
        return key
      }
      if (options.masterKey !== null) {
        const given = parseMasterKey(Redacted.value(options.masterKey))
        if (given === null) {
          return yield* new MasterKeyUnusable({
            source: "option",
            detail: "expected 32 bytes in hexadecimal, base64 or base64url",
          })
        }
        if (kept !== null) remember(kept)
        return make(remember(given), keys)
      }
      const master = kept ?? (yield* Effect.mapError(makeKeyFile(path), unusable(path)))
      return make(remember(master), keys)
    }),
  )
