/**
 * The service `Cameras`: checks and completes what people ask, seals passwords, sends changes to the entity of the camera on
 * whichever node serves it, and reads from the store.
 *
 * Invariants
 * 1. A password leaves this file sealed. Credentials inside a source URL are taken out of it first; those given beside it win.
 * 2. Every send has a time limit (`ask`).
 */
import { CameraActor, Cameras } from "#actors/protocol/camera.ts"
import { LicenseGate } from "#actors/protocol/license.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { ask } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import { DeviceDrivers } from "#media/device.ts"
import { cameraSecret, type NewCamera, type NewChannel, type NewStream, streamSecret } from "#schema/camera-change.ts"
import { splitSourceUrl } from "#schema/camera-url.ts"
import {
  type Camera,
  type CameraCreate,
  type CameraFilter,
  CameraNotFound,
  type CameraUpdate,
  type ChannelCreate,
  ChannelNotFound,
  seenWithin,
  type StreamCreate,
  StreamNotFound,
  type StreamUpdate,
} from "#schema/camera.ts"
import { CameraId, ChannelId, type PageRequest, StreamId } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { entityId } from "#schema/ownership.ts"
import type { Reach } from "#schema/permission.ts"
import { InvalidInput } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Effect, Layer, Redacted, Schema } from "effect"
import { findCamera } from "./camera-found.ts"
import { moving } from "./camera-moved.ts"

/** Cameras of the answer to a new order. */
const firstPage = 100

const cursor = cursorOf("cameras", Schema.Struct({ position: Schema.Int, id: CameraId }))

interface Credentials {
  readonly username?: string | null
  readonly password?: Redacted.Redacted | null
}

/** What a source URL and the members beside it say together. */
const sourceOf = (
  input: { readonly sourceUrl: string } & Credentials,
): { readonly url: string; readonly given: Credentials } => {
  const { password, url, username } = splitSourceUrl(input.sourceUrl)
  const inUrl: Credentials = username === null && password === null ? {} : {
    username,
    password: password === null ? null : Redacted.make(password),
  }
  return {
    url,
    given: {
      ...inUrl,
      ...(input.username === undefined ? {} : { username: input.username }),
      ...(input.password === undefined ? {} : { password: input.password }),
    },
  }
}

const rolesRepeat = (streams: ReadonlyArray<StreamCreate>) =>
  new Set(streams.map((stream) => stream.role)).size < streams.length

/** Faults that no schema can see, of a camera that is added by its source URLs. */
const checked = (input: CameraCreate): Effect.Effect<ReadonlyArray<ChannelCreate>, InvalidInput> => {
  const channels = input.channels ?? (input.streams === undefined ? [] : [{ streams: input.streams }])
  if (input.channels !== undefined && input.streams !== undefined) {
    return Effect.fail(InvalidInput.at("/payload/streams", "give either streams (of one channel) or channels"))
  }
  if (!channels.some((channel) => (channel.streams ?? []).length > 0)) {
    return Effect.fail(InvalidInput.at("/payload/streams", "an RTSP camera needs at least one stream"))
  }
  if (channels.some((channel) => rolesRepeat(channel.streams ?? []))) {
    return Effect.fail(InvalidInput.at("/payload/streams", "each stream of a channel needs a role of its own"))
  }
  return Effect.succeed(channels)
}

type Store = CameraStore["Service"]
type ClientOf = Effect.Success<typeof CameraActor.client>

/** Completes what is written for the first time or changed, with passwords sealed. */
const sealing = (vault: Vault["Service"]) => {
  const sealed = (context: string, password: Redacted.Redacted | null | undefined) =>
    password === null || password === undefined ? Effect.succeed(null) : vault.seal(context, password)
  /** The changed members of credentials; what is left out stays as it is. */
  const changed = (context: string, given: Credentials) =>
    Effect.map(sealed(context, given.password), (sealedPassword) => ({
      ...(given.username === undefined ? {} : { username: given.username }),
      ...(given.password === undefined ? {} : { sealedPassword }),
    }))
  const newStream = Effect.fnUntraced(function*(input: StreamCreate) {
    const id = StreamId.make(yield* uuid7)
    const { given, url } = sourceOf(input)
    return {
      id,
      role: input.role,
      sourceUrl: url,
      transport: input.transport ?? "tcp",
      enabled: input.enabled ?? true,
      onDemand: input.onDemand ?? input.role === "sub",
      username: given.username ?? null,
      sealedPassword: yield* sealed(streamSecret(id), given.password),
    } satisfies NewStream
  })
  const newChannel = Effect.fnUntraced(function*(input: ChannelCreate) {
    return {
      id: ChannelId.make(yield* uuid7),
      name: input.name ?? null,
      active: input.active ?? true,
      streams: yield* Effect.forEach(input.streams ?? [], newStream),
    } satisfies NewChannel
  })
  return { sealed, changed, newStream, newChannel }
}

/** Finds cameras and what is below them, and the entity that may change them. */
const finding = (store: Store, clientOf: ClientOf) => {
  const get = (id: CameraId) =>
    Effect.flatMap(
      store.get(id),
      (camera) => camera === null ? Effect.fail(new CameraNotFound({ id })) : Effect.succeed(camera),
    )
  /** The camera that something below it belongs to. */
  const parent = (of: { readonly channelId: ChannelId } | { readonly streamId: StreamId }) =>
    Effect.flatMap(store.cameraOf(of), (id) => id === null ? Effect.succeed(null) : store.get(id))
  const homeOf = Effect.fnUntraced(function*(id: ChannelId) {
    const cameraId = yield* store.cameraOf({ channelId: id })
    const home = cameraId === null ? null : yield* store.home(cameraId)
    return home ?? (yield* new ChannelNotFound({ id }))
  })
  return {
    get,
    homeOf,
    channel: (id: ChannelId) =>
      Effect.flatMap(parent({ channelId: id }), (camera) => {
        const found = camera?.channels.find((one) => one.id === id)
        return found === undefined ? Effect.fail(new ChannelNotFound({ id })) : Effect.succeed(found)
      }),
    stream: (id: StreamId) =>
      Effect.flatMap(parent({ streamId: id }), (camera) => {
        const found = camera?.channels.flatMap((one) => one.streams).find((one) => one.id === id)
        return found === undefined ? Effect.fail(new StreamNotFound({ id })) : Effect.succeed(found)
      }),
    entity: (id: CameraId) =>
      Effect.flatMap(
        store.home(id),
        (home) =>
          home === null ? Effect.fail(new CameraNotFound({ id })) : Effect.succeed(clientOf(entityId(home.slot, id))),
      ),
    entityOfChannel: (id: ChannelId) => Effect.map(homeOf(id), (home) => clientOf(entityId(home.slot, home.cameraId))),
    entityOfStream: Effect.fnUntraced(function*(id: StreamId) {
      const cameraId = yield* store.cameraOf({ streamId: id })
      const home = cameraId === null ? null : yield* store.home(cameraId)
      if (home === null) return yield* new StreamNotFound({ id })
      return clientOf(entityId(home.slot, home.cameraId))
    }),
  }
}

/** Lists and their order. */
const listing = (store: Store) => {
  const list = Effect.fnUntraced(function*(filter: CameraFilter, request: PageRequest, within: Reach) {
    const after = yield* cursor.decode(request.cursor)
    const rows = yield* store.list(filter, request.limit + 1, after, within)
    const position = ({ id, position }: Camera) => ({ id, position })
    const page = pageFrom({ rows, limit: request.limit, cursor, position, item: (row) => seenWithin(row, within) })
    // None is null but for a channel that went between two statements.
    return { ...page, items: page.items.filter((camera) => camera !== null) }
  })
  const reorder = (ids: ReadonlyArray<CameraId>) =>
    new Set(ids).size < ids.length ?
      Effect.fail(InvalidInput.at("/payload/ids", "each camera may be named once")) :
      Effect.andThen(
        store.reorder(ids),
        list({}, { limit: firstPage, cursor: null }, "all").pipe(Effect.catchTag("InvalidCursor", Effect.die)),
      )
  return { list, reorder }
}

const make = Effect.gen(function*() {
  const [store, ownership, vault, clientOf] = yield* Effect.all([CameraStore, Ownership, Vault, CameraActor.client])
  const { changed, newChannel, newStream, sealed } = sealing(vault)
  const { channel, entity, entityOfChannel, entityOfStream, get, homeOf, stream } = finding(store, clientOf)
  const gate = yield* LicenseGate
  const drivers = yield* DeviceDrivers
  const movedTo = moving({ store, vault, drivers })
  const mayAddChannels = (adding: number) =>
    Effect.flatMap(store.count(), (now) => gate.mayAddChannels(now.channels, adding))

  const place = Effect.fn("Cameras.place")(function*(camera: NewCamera) {
    yield* mayAddChannels(camera.channels.length)
    return yield* ask(clientOf(ownership.entityId(camera.id)).Create({ camera }))
  })
  const create = Effect.fn("Cameras.create")(function*(input: CameraCreate, given?: CameraId) {
    const { channels, endpoint, information } = input.driver === "rtsp" ?
      { channels: yield* checked(input), endpoint: null, information: null } :
      yield* findCamera(input).pipe(Effect.provideService(DeviceDrivers, drivers))
    const id = given ?? CameraId.make(yield* uuid7)
    return yield* place({
      id,
      homeNodeId: ownership.nodeId,
      name: input.name,
      description: input.description ?? "",
      driver: input.driver,
      host: endpoint?.host ?? null,
      port: endpoint?.port ?? null,
      enabled: input.enabled ?? true,
      username: input.username ?? null,
      sealedPassword: yield* sealed(cameraSecret(id), input.password),
      tags: input.tags ?? [],
      ...(information === null ? {} : { information }),
      channels: yield* Effect.forEach(channels, newChannel),
    })
  })
  const update = Effect.fn("Cameras.update")(function*(id: CameraId, input: CameraUpdate, ifMatch: number | null) {
    const client = yield* entity(id)
    const endpoint = yield* movedTo(id, input)
    const change = {
      name: input.name,
      description: input.description ?? "",
      enabled: input.enabled ?? true,
      ...(endpoint === null ? {} : { endpoint }),
      ...(input.tags === undefined ? {} : { tags: input.tags }),
      ...(yield* changed(cameraSecret(id), input)),
    }
    return yield* ask(client.Update({ id, change, ifMatch }))
  })
  /** A phone sends one stream and decides itself what it is. */
  const notOfPhone = Effect.fnUntraced(function*(of: Parameters<typeof store.cameraOf>[0]) {
    const id = yield* store.cameraOf(of)
    const row = id === null ? null : yield* store.endpoint(id)
    if (row?.driver === "mobile") {
      return yield* InvalidInput.at(
        "/payload/sourceUrl",
        "a phone's stream has no address; switch its channel off and on",
      )
    }
  })
  const updateStream = Effect.fn("Cameras.updateStream")(
    function*(id: StreamId, input: StreamUpdate, ifMatch: number | null) {
      const client = yield* entityOfStream(id)
      yield* notOfPhone({ streamId: id })
      const { given, url } = sourceOf(input)
      const change = {
        sourceUrl: url,
        transport: input.transport ?? "tcp" as const,
        enabled: input.enabled ?? true,
        ...(input.onDemand === undefined ? {} : { onDemand: input.onDemand }),
        ...(yield* changed(streamSecret(id), given)),
      }
      return yield* ask(client.UpdateStream({ streamId: id, change, ifMatch }))
    },
  )
  const addChannel = Effect.fn("Cameras.addChannel")(function*(id: CameraId, input: ChannelCreate) {
    if (rolesRepeat(input.streams ?? [])) {
      return yield* InvalidInput.at("/payload/streams", "each stream of a channel needs a role of its own")
    }
    const client = yield* entity(id)
    yield* mayAddChannels(1)
    return yield* ask(client.AddChannel({ id, channel: yield* newChannel(input) }))
  })

  return Cameras.of({
    ...listing(store),
    get,
    count: store.count,
    create,
    place,
    update,
    remove: (id, ifMatch) => Effect.flatMap(entity(id), (client) => ask(client.Delete({ id, ifMatch }))),
    channels: (id) => Effect.map(get(id), (camera) => camera.channels),
    channel,
    addChannel,
    updateChannel: (id, input, ifMatch) =>
      Effect.flatMap(
        entityOfChannel(id),
        (client) =>
          ask(client.UpdateChannel({ channelId: id, name: input.name, active: input.active ?? true, ifMatch })),
      ),
    toggleChannel: (id, active, ifMatch) =>
      Effect.flatMap(entityOfChannel(id), (client) => ask(client.ToggleChannel({ channelId: id, active, ifMatch }))),
    removeChannel: (id, ifMatch) =>
      Effect.flatMap(entityOfChannel(id), (client) => ask(client.DeleteChannel({ channelId: id, ifMatch }))),
    streams: (id) => Effect.map(channel(id), (found) => found.streams),
    stream,
    addStream: (id, input) =>
      Effect.gen(function*() {
        const client = yield* entityOfChannel(id)
        yield* notOfPhone({ channelId: id })
        return yield* ask(client.AddStream({ channelId: id, stream: yield* newStream(input) }))
      }),
    updateStream,
    removeStream: (id, ifMatch) =>
      Effect.flatMap(entityOfStream(id), (client) => ask(client.DeleteStream({ streamId: id, ifMatch }))),
    homeOf,
    placeOf: store.placeOf,
    missing: store.missing,
  })
})

export const layer = Layer.effect(Cameras, make)
