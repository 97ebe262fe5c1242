/**
 * {@link CameraOffers}: what a camera claims and what is known better of it; what its driver finds beside what was added.
 *
 * Invariants
 * 1. A channel is known by the address of any of its streams; where camera and list have one each, they are the same.
 * 2. Nothing that was added is changed or removed by a discovery; with `apply` new ones are added, one after the other.
 */
import { CameraDevices } from "#actors/protocol/camera-device.ts"
import { CameraOffers } from "#actors/protocol/camera-offer.ts"
import { CameraActor, Cameras } from "#actors/protocol/camera.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { ask } from "#cluster/ask.ts"
import type { Capability } from "#schema/camera-device.ts"
import {
  type CapabilityChange,
  type DiscoveredChannel,
  type DiscoveredStream,
  type FoundChannels,
  overridden,
} from "#schema/camera-offer.ts"
import { splitSourceUrl } from "#schema/camera-url.ts"
import { type Camera, CameraNotFound, type CameraStream, type Channel, ChannelNotFound } from "#schema/camera.ts"
import type { CameraId, ChannelId } from "#schema/common.ts"
import { entityId } from "#schema/ownership.ts"
import { Effect, Layer } from "effect"

type Found = FoundChannels[number]

/** As addresses are stored. */
const addressOf = (url: string): string => splitSourceUrl(url).url

const sameChannel = (channel: Channel, found: Found): boolean => {
  const own = new Set(channel.streams.map(({ sourceUrl }) => sourceUrl))
  return found.streams.some(({ sourceUrl }) => own.has(addressOf(sourceUrl)))
}

/** What was added beside what was found: each of both once. */
const paired = (
  { channels }: Camera,
  found: FoundChannels,
): ReadonlyArray<{ readonly channel: Channel | null; readonly found: Found | null }> => {
  if (channels.length === 1 && found.length === 1) return [{ channel: channels[0]!, found: found[0]! }]
  const left = new Set(channels)
  const pairs = found.map((one) => {
    const channel = [...left].find((each) => sameChannel(each, one)) ?? null
    if (channel !== null) left.delete(channel)
    return { channel, found: one }
  })
  return [...pairs, ...[...left].map((channel) => ({ channel, found: null }))]
}

const streamsOf = (channel: Channel | null, found: Found | null): ReadonlyArray<DiscoveredStream> => {
  const there = (found?.streams ?? []).map(({ profileToken, role, sourceUrl }): DiscoveredStream => {
    const own = channel?.streams.find((stream) => stream.role === role)
    const url = addressOf(sourceUrl)
    const state = own === undefined ? "new" : own.sourceUrl === url ? "known" : "changed"
    return { role, state, streamId: own?.id ?? null, profileToken, sourceUrl: url }
  })
  const gone = (channel?.streams ?? []).filter(({ role }) => !there.some((one) => one.role === role))
  return [
    ...there,
    ...gone.map(({ id, role, sourceUrl }): DiscoveredStream => ({
      role,
      state: "gone",
      streamId: id,
      profileToken: null,
      sourceUrl,
    })),
  ]
}

const channelOf = (channel: Channel | null, found: Found | null): DiscoveredChannel => {
  const streams = streamsOf(channel, found)
  const state = channel === null ? "new" : found === null ? "gone" : streams.every((one) => one.state === "known") ?
    "known" :
    "changed"
  return {
    state,
    channelId: channel?.id ?? null,
    name: channel?.name ?? found?.name ?? null,
    videoSourceToken: found?.videoSourceToken ?? null,
    streams,
  }
}

const added = (stream: DiscoveredStream, made: CameraStream | undefined): DiscoveredStream =>
  made === undefined ? stream : { ...stream, state: "added", streamId: made.id }

/** What counts, of what was just set. */
const counting = ({ name, supported }: CapabilityChange, by: string): Capability =>
  supported === "asTold" ?
    { name, supported: "unverified", evidence: "what the camera claims" } :
    { name, supported, evidence: `set by ${by}` }

const make = Effect.gen(function*() {
  const [store, cameras, devices, clientOf] = yield* Effect.all([
    CameraStore,
    Cameras,
    CameraDevices,
    CameraActor.client,
  ])
  const placeOf = Effect.fnUntraced(function*(id: ChannelId) {
    return (yield* store.placeOf({ channelId: id })) ?? (yield* new ChannelNotFound({ id }))
  })
  /** What the camera claims; nothing where its family claims nothing and somebody knows better. */
  const told = Effect.fnUntraced(function*(id: CameraId, somethingSet: boolean) {
    return yield* devices.ask(id, (camera) => camera.Capabilities()).pipe(
      Effect.catchTag("OnvifOperationUnsupported", (error) =>
        somethingSet ? Effect.succeed<ReadonlyArray<Capability>>([]) : Effect.fail(error)),
    )
  })
  const set = Effect.fnUntraced(
    function*(cameraId: CameraId, channelId: ChannelId | null, change: CapabilityChange, by: string) {
      const home = yield* store.home(cameraId)
      if (home === null) return yield* new CameraNotFound({ id: cameraId })
      yield* ask(clientOf(entityId(home.slot, cameraId)).SetCapability({ id: cameraId, channelId, change, by }))
      return counting(change, by)
    },
  )
  const goneWith = <A, E, R>(id: ChannelId, work: Effect.Effect<A, E | CameraNotFound, R>) =>
    Effect.catchIf(
      work,
      (error): error is CameraNotFound => error instanceof CameraNotFound,
      () => Effect.fail(new ChannelNotFound({ id })),
    ) as Effect.Effect<A, Exclude<E, CameraNotFound> | ChannelNotFound, R>

  return CameraOffers.of({
    ofCamera: Effect.fn("CameraOffers.ofCamera")(function*(id) {
      const own = yield* store.capabilities({ cameraId: id, channelId: null })
      return overridden(yield* told(id, own.length > 0), own)
    }),
    ofChannel: Effect.fn("CameraOffers.ofChannel")(function*(id) {
      const { cameraId } = yield* placeOf(id)
      const camera = yield* store.capabilities({ cameraId, channelId: null })
      const own = yield* store.capabilities({ cameraId, channelId: id })
      return overridden(yield* goneWith(id, told(cameraId, camera.length + own.length > 0)), camera, own)
    }),
    setOfCamera: (id, change, by) => set(id, null, change, by),
    setOfChannel: Effect.fn("CameraOffers.setOfChannel")(function*(id, change, by) {
      const { cameraId } = yield* placeOf(id)
      return yield* goneWith(id, set(cameraId, id, change, by))
    }),
    discoverChannels: Effect.fn("CameraOffers.discoverChannels")(function*(id, apply) {
      const found = yield* devices.ask(id, (camera) => camera.Channels())
      const pairs = paired(yield* cameras.get(id), found)
      return yield* Effect.forEach(pairs, ({ channel, found }) =>
        Effect.gen(function*() {
          const told = channelOf(channel, found)
          if (!apply || told.state !== "new") return told
          const made = yield* cameras.addChannel(id, {
            ...(told.name === null ? {} : { name: told.name }),
            streams: told.streams.map(({ role, sourceUrl }) => ({ role, sourceUrl })),
          })
          return {
            ...told,
            state: "added" as const,
            channelId: made.id,
            name: made.name,
            streams: told.streams.map((stream) => added(stream, made.streams.find(({ role }) => role === stream.role))),
          }
        }))
    }),
    discoverStreams: Effect.fn("CameraOffers.discoverStreams")(function*(id, apply) {
      const { cameraId } = yield* placeOf(id)
      const { camera, found, profiles } = yield* goneWith(
        id,
        Effect.all({
          camera: cameras.get(cameraId),
          found: devices.ask(cameraId, (client) => client.Channels()),
          profiles: devices.ask(cameraId, (client) => client.Profiles()),
        }),
      )
      const own = paired(camera, found).find(({ channel }) => channel?.id === id)
      if (own === undefined) return yield* new ChannelNotFound({ id })
      const items = yield* Effect.forEach(
        streamsOf(own.channel, own.found),
        (stream) =>
          apply && stream.state === "new" ?
            cameras.addStream(id, { role: stream.role, sourceUrl: stream.sourceUrl }).pipe(
              // Of a phone's channel alone, and phones are not asked what they have.
              Effect.catchTag("InvalidInput", Effect.die),
              Effect.map((made) => added(stream, made)),
            ) :
            Effect.succeed(stream),
      )
      const source = own.found?.videoSourceToken ?? null
      return {
        items,
        nextCursor: null,
        profiles: source === null ? [] : profiles.filter(({ videoSourceToken }) => (videoSourceToken ?? "") === source),
      }
    }),
  })
})

export const layer = Layer.effect(CameraOffers, make)
