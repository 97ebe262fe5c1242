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
 * 4. Where the operator gives a key and the file is there too, what was sealed under the file's keys still opens: that is how
 *    one moves from the one to the other.
 * 5. The file holds a key a line: the first seals, the others are of before and still open. A renewed key is on the disk before
 *    anything is sealed under it, so a crash at any point leaves everything readable.
 */
import { MasterKeyGiven, type MasterKeyIds, MasterKeyNotKept, MasterKeys, Vault, VaultError } from "#schema/vault.ts"
import { Context, Effect, FileSystem, Layer, type PlatformError, Redacted, Schema, Semaphore } from "effect"
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from "node:crypto"
import { dirname } from "node:path"

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

/** A key and those of before whose texts were not all sealed anew yet. */
const mostKeys = 8
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

/** A key that texts are sealed under, made from a master key. */
export interface SealKey {
  readonly id: string
  readonly secret: Buffer
}

export const deriveKey = (master: Buffer): SealKey => ({
  id: createHash("sha256").update("nightjar key id\0").update(master).digest("hex").slice(0, 12),
  secret: Buffer.from(hkdfSync("sha256", master, "", "nightjar seal v1", keyBytes)),
})

const associated = (keyId: string, context: string) => Buffer.from(`${version}\0${keyId}\0${context}`, "utf8")

/** What is known of keys; renewing and retiring change it. */
export interface Ring {
  sealing: SealKey
  readonly opening: Map<string, SealKey>
}

/** Seals and opens with the keys of a ring. */
export const vaultOf = (ring: Ring): Vault["Service"] => ({
  seal: (context, secret) =>
    Effect.sync(() => {
      const { sealing } = ring
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
      const key = ring.opening.get(keyId)
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

/** The keys of the file, the one that seals first; none where there is no file. Closes a file that others could read. */
const readKeyFile = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  if (!(yield* fs.exists(path))) return []
  const { mode } = yield* fs.stat(path)
  if ((mode & 0o077) !== 0) {
    yield* Effect.logWarning(`${path} could be read by others; closed now. Consider a new master key.`)
    yield* fs.chmod(path, 0o600)
  }
  const lines = (yield* fs.readFileString(path)).trim().split("\n")
  const keys = lines.map(parseMasterKey).filter((key) => key !== null)
  if (keys.length < lines.length || keys.length > mostKeys) {
    return yield* new MasterKeyUnusable({ source: path, detail: "it does not hold 32 bytes in base64url a line" })
  }
  return keys
})

const lineOf = (key: Buffer) => `${key.toString("base64url")}\n`

const makeKeyFile = Effect.fnUntraced(function*(path: string) {
  const fs = yield* FileSystem.FileSystem
  const key = randomBytes(keyBytes)
  yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(path, { flag: "wx", mode: 0o600 })
    yield* file.writeAll(Buffer.from(lineOf(key), "utf8"))
    yield* file.sync
  }))
  return key
})

/** Replaces the file: a crash leaves the old one or the new one, and what returns survives a power cut. */
const replaceKeyFile = Effect.fnUntraced(function*(path: string, keys: ReadonlyArray<Buffer>) {
  const fs = yield* FileSystem.FileSystem
  const draft = `${path}.new`
  yield* fs.remove(draft, { force: true })
  yield* Effect.scoped(Effect.gen(function*() {
    const file = yield* fs.open(draft, { flag: "wx", mode: 0o600 })
    yield* file.writeAll(Buffer.from(keys.map(lineOf).join(""), "utf8"))
    yield* file.sync
  }))
  yield* fs.rename(draft, path)
  yield* Effect.scoped(Effect.flatMap(fs.open(dirname(path), { flag: "r" }), (folder) => folder.sync))
})

const unusable = (source: string) => (error: PlatformError.PlatformError) =>
  new MasterKeyUnusable({ source, detail: error.message })

/** Renewing and retiring, over the file. */
const makeKeys = (ring: Ring, kept: ReadonlyArray<Buffer>, path: string, source: "file" | "setting") =>
  Effect.gen(function*() {
    const fs = yield* FileSystem.FileSystem
    const one = yield* Semaphore.make(1)
    let masters = kept
    const write = (keys: ReadonlyArray<Buffer>) =>
      replaceKeyFile(path, keys).pipe(
        Effect.provideService(FileSystem.FileSystem, fs),
        Effect.mapError((error) => new MasterKeyNotKept({ detail: error.message })),
        Effect.tap(() =>
          Effect.sync(() => {
            masters = keys
          })
        ),
        // Between the file and the memory nothing may come.
        Effect.uninterruptible,
      )
    const ids = Effect.sync((): MasterKeyIds => ({
      sealing: ring.sealing.id,
      older: [...ring.opening.keys()].filter((id) => id !== ring.sealing.id),
      source,
    }))
    return MasterKeys.of({
      ids,
      renew: one.withPermits(1)(Effect.gen(function*() {
        if (source === "setting") return yield* new MasterKeyGiven()
        if (masters.length >= mostKeys) {
          return yield* new MasterKeyNotKept({ detail: `${mostKeys} keys are still in use; they must retire first` })
        }
        const master = randomBytes(keyBytes)
        yield* write([master, ...masters])
        ring.sealing = deriveKey(master)
        ring.opening.set(ring.sealing.id, ring.sealing)
        return yield* ids
      })),
      retire: (retired) =>
        one.withPermits(1)(Effect.gen(function*() {
          const leaving = new Set(retired.filter((id) => id !== ring.sealing.id))
          // A key that the operator gave elsewhere keeps its file: it may be there on purpose.
          if (source === "file") yield* write(masters.filter((master) => !leaving.has(deriveKey(master).id)))
          for (const id of leaving) ring.opening.delete(id)
        })),
    })
  })

/** The node's vault. */
export const layer = (
  options: VaultOptions,
): Layer.Layer<Vault | MasterKeys, MasterKeyUnusable, FileSystem.FileSystem> =>
  Layer.effectContext(Effect.gen(function*() {
    const path = `${options.dataFolder}/master.key`
    const kept = yield* readKeyFile(path).pipe(
      Effect.catchTag("PlatformError", (error) => Effect.fail(unusable(path)(error))),
    )
    const given = options.masterKey === null ? null : parseMasterKey(Redacted.value(options.masterKey))
    if (options.masterKey !== null && given === null) {
      return yield* new MasterKeyUnusable({
        source: "option",
        detail: "expected 32 bytes in hexadecimal, base64 or base64url",
      })
    }
    const first = given ?? kept[0] ?? (yield* Effect.mapError(makeKeyFile(path), unusable(path)))
    const masters = kept.length === 0 && given === null ? [first] : kept
    const sealing = deriveKey(first)
    const opening = new Map([sealing, ...masters.map(deriveKey)].map((key) => [key.id, key]))
    const ring: Ring = { sealing, opening }
    const keys = yield* makeKeys(ring, masters, path, given === null ? "file" : "setting")
    return Context.make(Vault, vaultOf(ring)).pipe(Context.add(MasterKeys, keys))
  }))
