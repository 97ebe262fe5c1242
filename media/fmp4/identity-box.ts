/**
 * Who a file belongs to: a `uuid` box behind `moov`, so that a file found alone on a disk tells its recording, camera, stream,
 * node, epoch and place in the sequence. The content is JSON: a person with a hex viewer can read it.
 *
 * Invariants
 * 1. Behind the initialisation part, not in it: files of the same parameters keep equal initialisation bytes.
 * 2. Unknown members are ignored, so that older and newer versions share a disk.
 */
import { CameraId, ChannelId, EpochMs, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import { StreamRole } from "#schema/record.ts"
import { Option, Schema } from "effect"
import { boxHeader } from "./box.ts"
import { box } from "./bytes.ts"

/** Type of the box: a random UUID that means "identity of a Nightjar file". */
const boxType = Buffer.from("6e6a69643f0e4b7e8d51c2a94e6b7f03", "hex")
/** The JSON is about 600 bytes. */
const maxContent = 4_096

export const FileDescription = Schema.Struct({
  version: Schema.Literal(1),
  id: Schema.String,
  recordingId: RecordingId,
  recordingToken: RecordingToken,
  streamId: StreamId,
  channelId: ChannelId,
  nodeId: NodeId,
  epoch: Schema.Int,
  sequence: Schema.Int,
  startMs: EpochMs,
  /** Whose picture it is, for a time when nothing else tells; absent in files of earlier versions. */
  origin: Schema.optionalKey(Schema.Struct({
    cameraId: CameraId,
    cameraName: Schema.String,
    channelName: Schema.String,
    role: StreamRole,
  })),
})
export type FileDescription = typeof FileDescription.Type

const Json = Schema.fromJsonString(FileDescription)
const decode = Schema.decodeUnknownOption(Json)

/** The box as bytes. */
export const identityBox = (description: FileDescription): Buffer =>
  box("uuid", boxType, Buffer.from(JSON.stringify(description), "utf8"))

/** The identity that starts at `at`, and where it ends; null where there is none. Total. */
export const readIdentity = (
  bytes: Uint8Array,
  at: number,
): { readonly description: FileDescription; readonly end: number } | null => {
  const header = boxHeader(bytes, at, bytes.length)
  if (header === null || header.type !== "uuid" || header.header !== 8) return null
  const end = at + header.size
  if (end > bytes.length || header.size < 24 || header.size > 24 + maxContent) return null
  if (boxType.compare(bytes, at + 8, at + 24) !== 0) return null
  const text = Buffer.from(bytes.buffer, bytes.byteOffset + at + 24, header.size - 24).toString("utf8")
  return Option.match(decode(text), { onNone: () => null, onSome: (description) => ({ description, end }) })
}
