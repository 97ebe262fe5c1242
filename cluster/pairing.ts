/**
 * The pairing of two nodes, as arithmetic: a commitment, a transcript of what both sides said, the code that people compare, and the
 * signatures that prove the keys.
 *
 * The asking node commits to its nonce before it hears the other's, and reveals it afterwards: whoever stands in between has to choose
 * before it can know what the code will be, and gets one guess in a million (as in Bluetooth's numeric comparison and ZRTP, RFC 6189,
 * section 4.4).
 *
 * Invariants
 * 1. The transcript holds everything that was said of both nodes, each part of constant length: a change of any of it is another code.
 * 2. Hashes and signatures of different purpose begin with different words: none can be used as another.
 */
import type { NodeIntroduction } from "#schema/auth-federation.ts"
import { createHash, createPublicKey, type KeyObject, sign, verify } from "node:crypto"

/** One side, as the other heard of it. `tlsPin` is the key that the side shows, by its own word and as it was seen. */
export type PairingSide = Omit<NodeIntroduction, "version">

const sha256 = (...parts: ReadonlyArray<string | Uint8Array>): Buffer => {
  const hash = createHash("sha256")
  for (const part of parts) hash.update(part)
  return hash.digest()
}

const bytesOf = (text: string): Buffer => Buffer.from(text, "base64url")

/** A side in 193 bytes. */
const sideOf = (side: PairingSide): Buffer =>
  Buffer.concat([
    sha256(side.nodeId),
    sha256(side.name),
    sha256(side.address),
    Buffer.from([side.tlsPin === null ? 0 : 1]),
    side.tlsPin === null ? Buffer.alloc(32) : bytesOf(side.tlsPin),
    bytesOf(side.signingKey),
    bytesOf(side.transferKey),
  ])

/** What the asking side sends before it knows the other's nonce. Nonces are 32 bytes in base64url. */
export const commitmentTo = (asking: PairingSide, nonce: string): string =>
  sha256("nightjar pairing commitment v1\0", sideOf(asking), bytesOf(nonce)).toString("base64url")

export interface PairingTranscript {
  readonly asking: PairingSide
  readonly asked: PairingSide
  readonly askingNonce: string
  readonly askedNonce: string
}

const transcriptOf = ({ asked, askedNonce, asking, askingNonce }: PairingTranscript): Buffer =>
  sha256("nightjar pairing transcript v1\0", sideOf(asking), sideOf(asked), bytesOf(askingNonce), bytesOf(askedNonce))

/** Six digits. 64 bits are taken modulo a million: no digit is likelier than another by more than 10^-13. */
export const comparisonCodeOf = (transcript: PairingTranscript): string =>
  String(sha256("nightjar pairing code v1\0", transcriptOf(transcript)).readBigUInt64BE(0) % 1_000_000n).padStart(
    6,
    "0",
  )

/** `answer`: the asked side, when the nonce was revealed. `claim`: the asking side, once it was confirmed. */
export type PairingStep = "answer" | "claim"

const signedText = (step: PairingStep, transcript: PairingTranscript) =>
  Buffer.concat([Buffer.from(`nightjar pairing ${step} v1\0`), transcriptOf(transcript)])

export const signTranscript = (key: KeyObject, step: PairingStep, transcript: PairingTranscript): string =>
  sign(null, signedText(step, transcript), key).toString("base64url")

/** Whether the side that takes this step has signed. Total: a key that is none has signed nothing. */
export const hasSigned = (step: PairingStep, transcript: PairingTranscript, signature: string): boolean => {
  const { signingKey } = step === "answer" ? transcript.asked : transcript.asking
  try {
    const key = createPublicKey({ key: { kty: "OKP", crv: "Ed25519", x: signingKey }, format: "jwk" })
    return verify(null, signedText(step, transcript), key, bytesOf(signature))
  } catch {
    return false
  }
}
