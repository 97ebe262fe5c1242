/**
 * The seal of a segment on its way: AES-256-GCM (NIST SP 800-38D) under the data key of its session.
 *
 *     nonce (12)   ciphertext of the file's front and the segment's fragments   tag (16)
 *
 * Invariants
 * 1. Session, recording, epoch, sequence, interval, lengths and hash are bound into the seal: bytes of another segment, session or
 *    length do not open.
 * 2. Nothing that came out of {@link opener} may be believed before `end` returned true.
 * 3. Memory is that of a chunk, whatever the segment's length.
 */
import type { ManifestEntry } from "#schema/federation-recordback.ts"
import { createCipheriv, createDecipheriv } from "node:crypto"

const algorithm = "aes-256-gcm"
export const dataKeyBytes = 32
export const nonceBytes = 12
const tagBytes = 16

/** What is bound into a seal. */
export type Bound = Pick<
  ManifestEntry,
  "recordingId" | "epoch" | "sequence" | "startMs" | "durationMs" | "bytes" | "frontBytes" | "sha256"
>

/** Length of the sealed form. */
export const sealedBytes = ({ bytes, frontBytes }: Bound): number => nonceBytes + frontBytes + bytes + tagBytes

const associated = (sessionId: string, bound: Bound): Buffer =>
  Buffer.from(
    [
      "nightjar record-back 1",
      sessionId,
      bound.recordingId,
      bound.epoch,
      bound.sequence,
      bound.startMs,
      bound.startMs + bound.durationMs,
      bound.frontBytes,
      bound.bytes,
      bound.sha256,
    ].join("\0"),
    "utf8",
  )

export interface Sealer {
  /** Goes first. */
  readonly head: Uint8Array
  readonly update: (plain: Uint8Array) => Uint8Array
  /** The tag; once. */
  readonly end: () => Uint8Array
}

/** `nonce`: fresh random bytes each time, also for a segment that is sent again. */
export const sealer = (key: Uint8Array, nonce: Uint8Array, sessionId: string, bound: Bound): Sealer => {
  const cipher = createCipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(associated(sessionId, bound))
  return {
    head: nonce,
    update: (plain) => cipher.update(plain),
    end: () => {
      cipher.final()
      return cipher.getAuthTag()
    },
  }
}

export interface Opener {
  /** What is open of a chunk; null where more comes than the segment has. */
  readonly update: (sealed: Uint8Array) => Uint8Array | null
  /** Whether all of it came, and is what was sealed. */
  readonly end: () => boolean
}

const nothing = new Uint8Array(0)

/** Takes the sealed form in chunks of any length. */
export const opener = (key: Uint8Array, sessionId: string, bound: Bound): Opener => {
  const total = sealedBytes(bound)
  const tagAt = total - tagBytes
  const nonce = Buffer.alloc(nonceBytes)
  const tag = Buffer.alloc(tagBytes)
  const start = () =>
    createDecipheriv(algorithm, key, nonce, { authTagLength: tagBytes }).setAAD(associated(sessionId, bound))
  let decipher: ReturnType<typeof start> | null = null
  let at = 0
  return {
    update: (sealed) => {
      if (at + sealed.length > total) return null
      let rest = sealed
      if (at < nonceBytes) {
        const head = rest.subarray(0, nonceBytes - at)
        nonce.set(head, at)
        at += head.length
        rest = rest.subarray(head.length)
      }
      if (rest.length === 0) return nothing
      decipher ??= start()
      const body = rest.subarray(0, Math.max(0, tagAt - at))
      at += body.length
      const end = rest.subarray(body.length)
      if (end.length > 0) {
        tag.set(end, at - tagAt)
        at += end.length
      }
      return body.length === 0 ? nothing : decipher.update(body)
    },
    end: () => {
      if (at !== total || decipher === null) return false
      try {
        decipher.setAuthTag(tag)
        decipher.final()
        return true
      } catch {
        return false
      }
    },
  }
}
