/**
 * What a camera offers: capabilities that an administrator knows better, and channels and streams as its driver finds them.
 *
 * Invariants
 * 1. What an administrator set stands above what the camera claims, that of a channel above that of its camera.
 */
import { Schema } from "effect"
import { type Capability, CapabilityName, MediaProfile } from "./camera-device.ts"
import { ChannelId, StreamId } from "./common.ts"
import { StreamRole } from "./record.ts"

/** `asTold`: what the camera claims counts again. */
export const CapabilityChange = Schema.Struct({
  name: CapabilityName,
  supported: Schema.Literals(["yes", "no", "asTold"]),
})
export type CapabilityChange = typeof CapabilityChange.Type

/** A capability as somebody set it. */
export const CapabilitySet = Schema.Struct({
  name: CapabilityName,
  supported: Schema.Literals(["yes", "no"]),
  /** Name of the user. */
  by: Schema.String,
})
export type CapabilitySet = typeof CapabilitySet.Type

/** As it is set of a camera (`channelId` null) or of one of its channels. */
export type CapabilitySetOf = CapabilitySet & { readonly channelId: string | null }

/**
 * What nothing of a camera may be asked for, with who set that: it counts as lacking in each of its channels.
 * `channels`: ids of all of them.
 */
export const lacking = (
  sets: ReadonlyArray<CapabilitySetOf>,
  channels: ReadonlyArray<string>,
): ReadonlyMap<Capability["name"], string> => {
  const counts = (name: Capability["name"], channelId: string | null) =>
    sets.find((one) => one.name === name && one.channelId === channelId) ??
      sets.find((one) => one.name === name && one.channelId === null)
  const lacks = new Map<Capability["name"], string>()
  for (const name of new Set(sets.map((one) => one.name))) {
    const parts = (channels.length === 0 ? [null] : channels).map((channel) => counts(name, channel))
    const [first] = parts
    if (first !== undefined && parts.every((one) => one?.supported === "no")) lacks.set(name, first.by)
  }
  return lacks
}

/** `told` with what was set in its place; the later of `sets` wins. */
export const overridden = (
  told: ReadonlyArray<Capability>,
  ...sets: ReadonlyArray<ReadonlyArray<CapabilitySet>>
): ReadonlyArray<Capability> => {
  const known = new Map(told.map((one) => [one.name, one]))
  for (const { by, name, supported } of sets.flat()) known.set(name, { name, supported, evidence: `set by ${by}` })
  return [...known.values()]
}

/** What a driver found, as it travels between nodes. */
export const FoundChannels = Schema.Array(Schema.Struct({
  name: Schema.NullOr(Schema.String),
  videoSourceToken: Schema.String,
  streams: Schema.Array(
    Schema.Struct({ role: Schema.Literals(["main", "sub"]), profileToken: Schema.String, sourceUrl: Schema.String }),
  ),
}))
export type FoundChannels = typeof FoundChannels.Type

/**
 * `new`: the camera has it, and it was not added. `added`: it was, just now. `known`: it is there as it was added. `changed`: it has
 * another address now. `gone`: it was added, and the camera does not have it.
 */
const State = Schema.Literals(["new", "added", "known", "changed", "gone"])

export const DiscoveredStream = Schema.Struct({
  role: StreamRole,
  state: State,
  /** Null: it was not added. */
  streamId: Schema.NullOr(StreamId),
  /** Null: the camera does not have it. */
  profileToken: Schema.NullOr(Schema.String),
  /** Where it plays; of one that is gone, where it played. */
  sourceUrl: Schema.String,
}).annotate({ identifier: "DiscoveredStream" })
export type DiscoveredStream = typeof DiscoveredStream.Type

export const DiscoveredChannel = Schema.Struct({
  state: State,
  /** Null: it was not added. */
  channelId: Schema.NullOr(ChannelId),
  name: Schema.NullOr(Schema.String),
  /** Null: the camera does not have it. */
  videoSourceToken: Schema.NullOr(Schema.String),
  streams: Schema.Array(DiscoveredStream),
}).annotate({ identifier: "DiscoveredChannel" })
export type DiscoveredChannel = typeof DiscoveredChannel.Type

export const DiscoveredStreams = Schema.Struct({
  items: Schema.Array(DiscoveredStream),
  nextCursor: Schema.Null,
  /** Profiles of the channel's video source. */
  profiles: Schema.Array(MediaProfile),
}).annotate({ identifier: "DiscoveredStreams" })
export type DiscoveredStreams = typeof DiscoveredStreams.Type
