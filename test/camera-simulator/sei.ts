/**
 * The mark that every picture carries: an SEI message `user_data_unregistered` (H.264 annex D.2.7, H.265 annex D.2.7) with
 * the camera's name, the absolute number of the frame and the time it was sent.
 *
 * Invariants
 * 1. The text has a fixed length, so a number is stamped by overwriting digits and nothing moves.
 * 2. No byte of the message is zero, so it never needs emulation prevention (ITU-T H.264, 7.4.1).
 */

/** Tells our message from others; no zero bytes. */
export const SEI_UUID = Buffer.from("nightjar-frame-1", "latin1")

const NAME_LENGTH = 32
const FRAME_DIGITS = 12
const TIME_DIGITS = 13
const PREFIX = "sim1 "

/** Offsets from the first byte of the UUID. */
export const NAME_AT = SEI_UUID.length + PREFIX.length
export const FRAME_AT = NAME_AT + NAME_LENGTH + 1
export const TIME_AT = FRAME_AT + FRAME_DIGITS + 1
const TEXT_END = TIME_AT + TIME_DIGITS

/** A whole SEI NAL unit (no start code), still without name and number, and where its UUID begins. */
export const seiUnit = (codec: "h264" | "h265"): { readonly unit: Buffer; readonly uuidAt: number } => {
  const header = codec === "h264" ? [0x06] : [0x4e, 0x01]
  const uuidAt = header.length + 2
  const unit = Buffer.alloc(uuidAt + TEXT_END + 1, 0x20)
  unit.set(header, 0)
  unit[header.length] = 5
  unit[header.length + 1] = TEXT_END
  SEI_UUID.copy(unit, uuidAt)
  unit.write(PREFIX, uuidAt + SEI_UUID.length, "latin1")
  markName("?").copy(unit, uuidAt + NAME_AT)
  stampFrame(unit, uuidAt, 0, 0)
  unit[unit.length - 1] = 0x80
  return { unit, uuidAt }
}

/** A name as it stands in the mark: printable ASCII, cut or filled with spaces to its fixed length. */
export const markName = (name: string): Buffer =>
  Buffer.from(name.replace(/[^\x21-\x7e]/g, "_").slice(0, NAME_LENGTH).padEnd(NAME_LENGTH, " "), "latin1")

const digits = (bytes: Uint8Array, at: number, count: number, value: number): void => {
  let rest = value
  for (let i = at + count - 1; i >= at; i--) {
    const next = Math.floor(rest / 10)
    bytes[i] = 0x30 + (rest - next * 10)
    rest = next
  }
}

/** `frame` counts from 0 and never starts again; `sentMs` is epoch milliseconds. */
export const stampFrame = (bytes: Uint8Array, uuidAt: number, frame: number, sentMs: number): void => {
  digits(bytes, uuidAt + FRAME_AT, FRAME_DIGITS, frame)
  bytes[uuidAt + FRAME_AT + FRAME_DIGITS] = 0x20
  digits(bytes, uuidAt + TIME_AT, TIME_DIGITS, Math.trunc(sentMs))
}
