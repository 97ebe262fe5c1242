/**
 * The wire of nanomsg's scalability protocols over TCP: sp-tcp-mapping-01 (greeting and framing) and sp-surveyor-respondent-01 (the
 * head of a survey), as bytes alone.
 *
 * Invariants
 * 1. Total: whatever the bytes are and however they are cut, they read as messages or as the end of the connection.
 * 2. A message's length is judged before anything is kept for it; at most one message of {@link largestMessage} bytes is unfinished.
 */

export const largestMessage = 4_096
const greetingBytes = 8
const lengthBytes = 8
/** Of devices between surveyor and respondent; nanomsg's default of `NN_MAXTTL`. */
const mostHops = 8

export type SpKind = "pub" | "sub" | "surveyor" | "respondent"
const types: Readonly<Record<SpKind, number>> = { pub: 0x20, sub: 0x21, surveyor: 0x62, respondent: 0x63 }
const counterparts: Readonly<Record<SpKind, SpKind>> = {
  pub: "sub",
  sub: "pub",
  surveyor: "respondent",
  respondent: "surveyor",
}

/** What either end says first: `0 S P 0`, its type, and 16 bits of nothing. */
export const greetingOf = (kind: SpKind): Buffer => Buffer.from([0, 0x53, 0x50, 0, 0, types[kind], 0, 0])

export const framed = (message: Uint8Array): Buffer => {
  const frame = Buffer.allocUnsafe(lengthBytes + message.length)
  frame.writeBigUInt64BE(BigInt(message.length))
  frame.set(message, lengthBytes)
  return frame
}

/** Why a connection ends: the other end speaks something else, or says too much at once. */
export type SpBroken = "foreign" | "oversized"

/** Reads what the counterpart of one socket says. */
export class SpReader {
  readonly #expected: Buffer
  #greeted = false
  #rest: Buffer = Buffer.alloc(0)
  #broken: SpBroken | null = null

  constructor(own: SpKind) {
    this.#expected = greetingOf(counterparts[own])
  }

  get greeted(): boolean {
    return this.#greeted
  }

  #end(why: SpBroken): SpBroken {
    this.#rest = Buffer.alloc(0)
    return this.#broken = why
  }

  /** The messages that these bytes complete, in order; once it is broken, it stays so. */
  push(chunk: Uint8Array): ReadonlyArray<Buffer> | SpBroken {
    if (this.#broken !== null) return this.#broken
    let bytes = Buffer.concat([this.#rest, chunk])
    if (!this.#greeted) {
      const said = bytes.subarray(0, greetingBytes)
      if (!said.equals(this.#expected.subarray(0, said.length))) return this.#end("foreign")
      this.#greeted = said.length === greetingBytes
      if (this.#greeted) bytes = bytes.subarray(greetingBytes)
    }
    const messages: Array<Buffer> = []
    while (this.#greeted && bytes.length >= lengthBytes) {
      const announced = bytes.readBigUInt64BE()
      if (announced > BigInt(largestMessage)) return this.#end("oversized")
      const end = lengthBytes + Number(announced)
      if (bytes.length < end) break
      messages.push(bytes.subarray(lengthBytes, end))
      bytes = bytes.subarray(end)
    }
    // A copy, so that a few bytes do not keep a whole chunk.
    this.#rest = Buffer.from(bytes)
    return messages
  }
}

/** The head of a survey: its id of 31 bits, the top bit set. */
export const surveyHead = (id: number): Buffer => {
  const head = Buffer.allocUnsafe(4)
  head.writeUInt32BE((id | 0x8000_0000) >>> 0)
  return head
}

/**
 * Parts the head of a survey or of an answer from its body: words of 32 bits up to the first that has its top bit set. Null where there
 * is no such word, or too many before it. An answer repeats the head.
 */
export const parted = (message: Buffer): { readonly head: Buffer; readonly body: Buffer } | null => {
  for (let end = 4; end <= message.length && end <= mostHops * 4; end += 4) {
    if ((message[end - 4]! & 0x80) !== 0) return { head: message.subarray(0, end), body: message.subarray(end) }
  }
  return null
}
