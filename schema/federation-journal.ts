/**
 * The journal of a takeover: what was changed of a home node's cameras where they were served in its stead, on its way home; and what
 * became of it there. Design: failover, "Guardianship".
 *
 * A configuration is told as a list of {@link Thing}s with fields, so that each field can be compared by itself.
 *
 * Invariants
 * 1. What a bundle tells is what a journal tells: {@link thingsOf} and {@link camerasOf} are each other's inverse.
 * 2. A `password` is readable within a process and within a sealed document only; what people see tells that it differs.
 */
import { Equal, Schema, Struct } from "effect"
import { CameraInformation, cameraSecret, streamSecret } from "./camera-change.ts"
import { CameraId, ChannelId, EpochMs, Instant, NodeId, StreamId, Uuid7 } from "./common.ts"
import { BundledCamera, BundledChannel, BundledStream } from "./federation-bundle.ts"
import { NewRecording } from "./record-config.ts"

/** Changes of one home node that wait for it: then this node changes nothing more of its cameras. */
export const maxJournal = 10_000
/** Entries of one answer: with schedules of 168 windows before and after some MiB. */
export const journalPage = 100

export const ThingKind = Schema.Literals(["camera", "channel", "stream", "recording"])
export type ThingKind = typeof ThingKind.Type

const Fields = Schema.Record(Schema.String, Schema.Json)
export type Fields = typeof Fields.Type

/** Fields of a thing as a whole; null where it is anything else. */
export const asFields = (value: Schema.Json | undefined): Fields | null =>
  typeof value === "object" && value !== null && !Array.isArray(value) ? value as Fields : null

const thing = {
  kind: ThingKind,
  id: Schema.String,
  cameraId: CameraId,
  /** Of streams and recordings. */
  channelId: Schema.NullOr(ChannelId),
}
export interface Thing {
  readonly kind: ThingKind
  readonly id: string
  readonly cameraId: CameraId
  readonly channelId: ChannelId | null
  readonly fields: Fields
}
export const thingKey = ({ id, kind }: Pick<Thing, "kind" | "id">): string => `${kind}/${id}`

/** A change of one thing: its changed fields before and after; null: it was not there, or is not there any more. */
export interface Difference extends Omit<Thing, "fields"> {
  readonly before: Fields | null
  readonly after: Fields | null
}

/** What the passwords of an entry are sealed for: what they are of, as there they were sealed first. */
export const journalSecret = (entryId: string): string => {
  const [kind, id = ""] = entryId.split("/")
  if (kind === "camera") return cameraSecret(CameraId.make(id))
  return kind === "stream" ? streamSecret(StreamId.make(id)) : `federation/journal/${entryId}`
}
export const conflictSecret = (id: string): string => `federation/conflict/${id}`

export const JournalEntry = Schema.Struct({
  ...thing,
  /** `<kind>/<id of the thing>/<UUIDv7>`. */
  entryId: Schema.String.check(Schema.isMaxLength(128)),
  /** By the clock of the node that made the change. */
  atMs: EpochMs,
  /** Name of the user; empty where a program did it. */
  by: Schema.String,
  /** With which the slot was served. */
  epoch: Schema.Int,
  before: Schema.NullOr(Fields),
  after: Schema.NullOr(Fields),
})
export type JournalEntry = typeof JournalEntry.Type

/** What is sealed for the home node. */
export const JournalPage = Schema.Struct({
  format: Schema.Literal("nightjar-failover-journal"),
  version: Schema.Literal(1),
  homeNodeId: NodeId,
  guardianNodeId: NodeId,
  /** In the order in which they were made. */
  entries: Schema.Array(JournalEntry).check(Schema.isMaxLength(journalPage)),
})
export type JournalPage = typeof JournalPage.Type

/** The home node has these now, and wants what follows. */
export const JournalRequest = Schema.Struct({
  acknowledged: Schema.Array(JournalEntry.fields.entryId).check(Schema.isMaxLength(journalPage)),
})
export const JournalAnswer = Schema.Struct({
  /** A {@link JournalPage}, see `cluster/sealed-document.ts`; null: there is nothing more. */
  page: Schema.NullOr(Schema.String),
})
export type JournalAnswer = typeof JournalAnswer.Type

const { channels: _channels, id: _camera, information: _information, ...cameraFields } = BundledCamera.fields
const { id: _channel, streams: _streams, ...channelFields } = BundledChannel.fields
const { id: _stream, ...streamFields } = BundledStream.fields
const recordingFields = Struct.omit(NewRecording.fields, ["id", "cameraId", "channelId"])

const fieldsOf: Readonly<Record<ThingKind, Readonly<Record<string, Schema.Codec<unknown, unknown>>>>> = {
  camera: { ...cameraFields, ...CameraInformation.fields },
  channel: channelFields,
  stream: streamFields,
  recording: recordingFields,
}

/** It is a field of such a thing, and may have this value. */
export const fits = (kind: ThingKind, field: string, value: unknown): boolean => {
  const schema = Object.hasOwn(fieldsOf[kind], field) ? fieldsOf[kind][field] : undefined
  return schema !== undefined && Schema.is(schema)(value)
}

/** Parents before what belongs to them. */
const order: ReadonlyArray<ThingKind> = ["camera", "channel", "stream", "recording"]
const byKind = (a: Pick<Thing, "kind">, b: Pick<Thing, "kind">) => order.indexOf(a.kind) - order.indexOf(b.kind)

export const recordingThings = (recordings: ReadonlyArray<NewRecording>): ReadonlyArray<Thing> =>
  recordings.map(({ cameraId, channelId, id, ...fields }) => ({
    kind: "recording",
    id,
    cameraId,
    channelId,
    fields: { ...fields, schedule: fields.schedule?.map((window) => ({ ...window })) ?? null },
  }))

/** Cameras, their channels and streams, each by itself. */
export const thingsOf = (cameras: ReadonlyArray<BundledCamera>): ReadonlyArray<Thing> =>
  cameras.flatMap(({ channels, id: cameraId, information, tags, ...camera }) => [
    { kind: "camera", id: cameraId, cameraId, channelId: null, fields: { ...camera, ...information, tags: [...tags] } },
    ...channels.flatMap(({ id: channelId, streams, ...channel }): ReadonlyArray<Thing> => [
      { kind: "channel", id: channelId, cameraId, channelId: null, fields: channel },
      ...streams.map(({ id, ...fields }): Thing => ({ kind: "stream", id, cameraId, channelId, fields })),
    ]),
  ])

const decodeCamera = Schema.decodeUnknownSync(BundledCamera)
const decodeChannel = Schema.decodeUnknownSync(BundledChannel)
const decodeStream = Schema.decodeUnknownSync(BundledStream)
const decodeRecording = Schema.decodeUnknownSync(NewRecording)

/** Without its streams. Every field was judged by {@link fits} before. */
export const channelOf = ({ fields, id }: Thing) => decodeChannel({ ...fields, id, streams: [] })
export const streamOf = ({ fields, id }: Thing) => decodeStream({ ...fields, id })
/** Without its channels. */
export const cameraOf = ({ fields, id }: Thing): BundledCamera => {
  const { firmware, manufacturer, model, serial, ...rest } = fields
  return decodeCamera({ ...rest, id, information: { firmware, manufacturer, model, serial }, channels: [] })
}
export const recordingOf = ({ cameraId, channelId, fields, id }: Thing): NewRecording =>
  decodeRecording({ ...fields, id, cameraId, channelId })

/** The inverse of {@link thingsOf}. */
export const camerasOf = (things: ReadonlyArray<Thing>): ReadonlyArray<BundledCamera> =>
  things.filter(({ kind }) => kind === "camera").map((camera) => ({
    ...cameraOf(camera),
    channels: things.filter(({ cameraId, kind }) => kind === "channel" && cameraId === camera.id).map((channel) => ({
      ...channelOf(channel),
      streams: things.filter(({ channelId, kind }) => kind === "stream" && channelId === channel.id).map(streamOf),
    })),
  }))
export const recordingsOf = (things: ReadonlyArray<Thing>): ReadonlyArray<NewRecording> =>
  things.filter(({ kind }) => kind === "recording").map(recordingOf)

const changed = (before: Fields, after: Fields) =>
  Object.keys(after).filter((name) => !Equal.equals(before[name], after[name]))
const pick = (fields: Fields, names: ReadonlyArray<string>): Fields =>
  Object.fromEntries(names.map((name) => [name, fields[name] ?? null]))

/** What happened between two looks: what came, parents first; what changed; what went, children first. */
export const differences = (before: ReadonlyArray<Thing>, after: ReadonlyArray<Thing>): ReadonlyArray<Difference> => {
  const [then, now] = [before, after].map((all) => new Map(all.map((one) => [thingKey(one), one])))
  const came = after.toSorted(byKind).flatMap(({ fields, ...one }): ReadonlyArray<Difference> => {
    const old = then!.get(thingKey(one))
    if (old === undefined) return [{ ...one, before: null, after: fields }]
    const names = changed(old.fields, fields)
    return names.length === 0 ? [] : [{ ...one, before: pick(old.fields, names), after: pick(fields, names) }]
  })
  const went = before.filter((one) => !now!.has(thingKey(one))).toSorted((a, b) => byKind(b, a))
  return [...came, ...went.map(({ fields, ...one }) => ({ ...one, before: fields, after: null }))]
}

/** Which side of a conflict. */
export const ConflictSide = Schema.Literals(["here", "there"])
export type ConflictSide = typeof ConflictSide.Type

export const ConflictId = Uuid7.pipe(Schema.brand("ConflictId"))
export type ConflictId = typeof ConflictId.Type

/** The name of the field of a conflict about the thing as a whole. */
export const wholeThing = "*"

/** One field was changed on both sides to different values, or a thing was changed here and removed there. */
export const ConfigurationConflict = Schema.Struct({
  id: ConflictId,
  kind: ThingKind,
  thingId: Schema.String,
  cameraId: CameraId,
  /** Empty where the camera is gone. */
  cameraName: Schema.String,
  /** Of the channel or stream, for a person; empty for the camera itself. */
  partName: Schema.String,
  /** `*`: the thing as a whole is there on one side only. */
  field: Schema.String,
  /** It is a password: no value is told, `null` says that there is none. */
  secret: Schema.Boolean,
  /** As it was when the cameras were taken over. */
  base: Schema.Json,
  /** As it was set on this node. */
  here: Schema.Json,
  /** As it was set on the node that served. */
  there: Schema.Json,
  guardianNodeId: NodeId,
  thereBy: Schema.String,
  /** By this node's clock, as far as the other one's is known. */
  thereAt: Instant,
  hereAt: Schema.NullOr(Instant),
  /** `other`: it was changed again since. */
  inForce: Schema.Literals(["here", "there", "other"]),
  /** Sides that can be chosen. */
  choices: Schema.Array(ConflictSide),
}).annotate({ identifier: "ConfigurationConflict" })
export type ConfigurationConflict = typeof ConfigurationConflict.Type

export class ConflictNotFound
  extends Schema.TaggedError<ConflictNotFound>()("ConflictNotFound", { id: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return "There is no such conflict, or it was decided already"
  }
}

/** That side cannot be brought about any more. */
export class ConflictImpossible
  extends Schema.TaggedError<ConflictImpossible>()("ConflictImpossible", { detail: Schema.String }, {
    httpApiStatus: 409,
  })
{
  override get message(): string {
    return this.detail
  }
}
