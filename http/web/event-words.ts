/** What happened in words for a person, and where to look at it. */
import { type EventEnvelope, eventTypeOf } from "#schema/event.ts"
import type { Recording } from "#schema/record-config.ts"
import { reasonOf } from "./reasons.ts"
import { causeOf } from "./time.ts"

export const titleOf = (type: string): string => eventTypeOf(type)?.title ?? type

const text = (event: EventEnvelope, member: string): string => {
  const value = event.data[member]
  return typeof value === "string" ? value : ""
}

/** One line: whom it happened to, and why. */
export const wordsOf = (event: EventEnvelope): string => {
  const reason = text(event, "reason")
  const cause = text(event, "cause")
  const parts = [
    text(event, "name") || text(event, "username"),
    text(event, "role") === "sub" ? "sub-stream" : "",
    text(event, "address") === "" ? "" : `from ${text(event, "address")}`,
    reason === "" ? "" : reasonOf(reason).headline,
    cause === "" ? "" : causeOf(cause),
    text(event, "detail"),
  ]
  return parts.filter((part) => part !== "").join(" · ")
}

/** Playback begins so much before the moment: one wants to see how it came. */
const lead = 5000

/** Where to look at it: the recording at that moment, else the page of what it happened to; null where there is none. */
export const placeOf = (event: EventEnvelope, recordings: ReadonlyArray<Recording>): string | null => {
  const recording = recordings.find(({ cameraId, id }) =>
    id === text(event, "recordingId") || cameraId === text(event, "cameraId")
  )
  if (recording !== undefined) return `#/play/${recording.recordingToken}?t=${event.time - lead}`
  if (event.type.startsWith("camera.")) return "#/cameras"
  if (event.type.startsWith("storage.") || event.type.startsWith("node.")) return "#/system"
  if (event.type === "user.signin.locked") return "#/security/locked"
  return null
}
