/**
 * Failover in words and colours: states of protections, reroutes and record-back.
 *
 * Invariant
 * 1. Every state of the schema has its word here: a new one does not compile without.
 */
import type { EventEnvelope } from "#schema/event.ts"
import type { RerouteState } from "#schema/federation-failover.ts"
import type { FederationNode, ProtectionClass, ProtectionState, RecordBackProgress } from "#schema/federation.ts"
import { lengthOf } from "./time.ts"

/** A state of `Badge`, for its colour. */
type Tone = "ok" | "warn" | "fail" | "idle"
type Word = readonly [tone: Tone, text: string]

export const protectionWords: Readonly<Record<ProtectionState, Word>> = {
  pendingGrant: ["warn", "waits to be allowed"],
  protected: ["ok", "protected"],
  suspect: ["warn", "does not answer"],
  takingOver: ["fail", "taking over"],
  takenOver: ["fail", "served here"],
  restored: ["warn", "back, still served here"],
  failingBack: ["warn", "failing back"],
  recordingBack: ["warn", "footage goes home"],
  stale: ["warn", "configuration out of date"],
  capacityShort: ["warn", "not enough room"],
  fenced: ["warn", "superseded by another node"],
  released: ["idle", "being released"],
}

/** The guardian serves the home node's cameras in these. */
export const serves = (state: ProtectionState): boolean =>
  state === "takingOver" || state === "takenOver" || state === "restored" || state === "failingBack"

export const rerouteWords: Readonly<Record<RerouteState, Word>> = {
  takingOver: ["fail", "taking over"],
  serving: ["fail", "serving"],
  failingBack: ["warn", "failing back"],
  recordingBack: ["warn", "footage goes home"],
  done: ["ok", "done"],
}

export const recordBackWords: Readonly<Record<RecordBackProgress["state"], Word>> = {
  pending: ["idle", "not begun"],
  keyExchange: ["warn", "agreeing on a key"],
  transferring: ["warn", "on its way"],
  paused: ["warn", "paused"],
  verifying: ["warn", "receipts are checked"],
  retryWait: ["warn", "waits to try again"],
  done: ["ok", "everything is home"],
  partial: ["warn", "home in part"],
  failed: ["fail", "failed"],
}

export const nodeWords: Readonly<Record<FederationNode["state"], Word>> = {
  online: ["ok", "online"],
  suspect: ["warn", "silent"],
  offline: ["fail", "offline"],
  unknown: ["idle", "not heard yet"],
}

export const classWords: Readonly<Record<ProtectionClass, readonly [name: string, hint: string]>> = {
  warm: ["warm", "Its configuration is here and ready; recording begins when it fails, and some seconds are lost."],
  shadow: [
    "shadow",
    "Nothing is lost: each camera is connected to from here too, all the time, and its last 30 s are held in memory. Costs a second stream of each camera on the network, and memory here: about 15 MB a camera of 4 Mbit/s.",
  ],
  liveOnly: ["live only", "Live pictures when it fails, no recording."],
}

/** Fields of cameras, channels, streams and recordings as people know them. */
const fieldWords: Readonly<Record<string, string>> = {
  name: "Name",
  description: "Description",
  host: "Address",
  port: "Port",
  enabled: "Switched on",
  active: "Switched on",
  username: "User name",
  password: "Password",
  tags: "Tags",
  driver: "Kind of camera",
  sourceUrl: "Stream address",
  transport: "Transport",
  onDemand: "On demand",
  mode: "Recording mode",
  retentionDays: "Days kept",
  maxBytes: "Largest size",
  preEventSeconds: "Seconds before an event",
  postEventSeconds: "Seconds after an event",
  schedule: "Schedule",
  manufacturer: "Maker",
  model: "Model",
  firmware: "Firmware",
  serial: "Serial number",
  capabilities: "What it is set to support",
}
export const fieldName = (field: string): string => fieldWords[field] ?? field

/** `1 camera`, `2 cameras` */
export const countOf = (count: number, noun: string): string => `${count} ${noun}${count === 1 ? "" : "s"}`

const text = (event: EventEnvelope, member: string): string => {
  const value = event.data[member]
  return typeof value === "string" ? value : ""
}
const number = (event: EventEnvelope, member: string): number | null => {
  const value = event.data[member]
  return typeof value === "number" ? value : null
}
const stateText = (state: string): string => {
  const known = Object.entries(protectionWords).find(([name]) => name === state)
  return known === undefined ? state : known[1][1]
}

/** One line: which node, from what to what, with what gap, and why. */
export const eventWords = (event: EventEnvelope): string => {
  const [epoch, gap] = [number(event, "epoch"), number(event, "gapMs")]
  const [from, to] = [text(event, "from"), text(event, "to")]
  const parts = [
    text(event, "homeName") || text(event, "name"),
    event.data["drill"] === true ? "drill" : "",
    to === "" ? "" : `${stateText(from)} → ${stateText(to)}`,
    gap === null ? "" : `gap ${lengthOf(gap)}`,
    epoch === null ? "" : `epoch ${epoch}`,
    text(event, "reason"),
  ]
  return parts.filter((part) => part !== "").join(" · ")
}
