/**
 * What goes over the pipes of the decoder: a JSON header of at most {@link maxHeader} bytes and a payload of at most
 * {@link maxPayload}, each behind its length (two 32-bit numbers, big-endian, in front of both).
 *
 * Invariants
 * 1. Total: whatever the bytes, they give messages or {@link Garbled}, and no more than one message is held.
 */
import { Schema } from "effect"

const maxHeader = 4_096
/** A key picture of 8K; JPEGs of 1920 pixels are below 2 MiB. */
const maxPayload = 32 * 1024 * 1024

/** To the decoder: a picture as an Annex B byte stream, parameter sets in front. */
export const StillJob = Schema.Struct({
  codec: Schema.Literals(["h264", "h265"]),
  width: Schema.Int,
})
export type StillJob = typeof StillJob.Type

/** From the decoder: `ready` or `unsupported` once, then `jpeg` or `failed` for each job. */
export const StillReply = Schema.Struct({
  kind: Schema.Literals(["ready", "unsupported", "jpeg", "failed"]),
  reason: Schema.optionalKey(Schema.String),
})
export type StillReply = typeof StillReply.Type

export class Garbled extends Error {}

export const message = (
  header: StillJob | StillReply,
  payload: Uint8Array = new Uint8Array(0),
): ReadonlyArray<Uint8Array> => {
  const json = Buffer.from(JSON.stringify(header))
  const lengths = Buffer.alloc(8)
  lengths.writeUInt32BE(json.length, 0)
  lengths.writeUInt32BE(payload.length, 4)
  return [lengths, json, payload]
}

/** Puts messages together; `onMessage` gets the header's text. Throws {@link Garbled}. */
export const makeMessageReader = (onMessage: (header: string, payload: Buffer) => void) => {
  let chunks: Array<Buffer> = []
  let held = 0
  let needed = 8
  return (chunk: Buffer): void => {
    chunks.push(chunk)
    held += chunk.length
    while (held >= needed) {
      const bytes = chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
      chunks = [bytes]
      const [header, payload] = [bytes.readUInt32BE(0), bytes.readUInt32BE(4)]
      if (header > maxHeader || payload > maxPayload) throw new Garbled("a message that is too long")
      needed = 8 + header + payload
      if (held < needed) return
      onMessage(bytes.toString("utf8", 8, 8 + header), Buffer.from(bytes.subarray(8 + header, needed)))
      const rest = bytes.subarray(needed)
      chunks = rest.length === 0 ? [] : [rest]
      held = rest.length
      needed = 8
    }
  }
}
