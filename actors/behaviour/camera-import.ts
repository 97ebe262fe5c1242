/**
 * What a backup's cameras would become here: read one by one, compared with what is there, their passwords opened.
 *
 * Invariants
 * 1. One that cannot be read, or whose password does not open beside its addresses, stops no other.
 * 2. An address keeps no credentials: a document that has some in one was not made by an export.
 * 3. The thread is given back every {@link together} cameras: recording goes on beside 10,000 of them.
 */
import { CameraJobStore } from "#actors/store/camera-job.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { BackupCamera, backupSecret, type BackupStream } from "#schema/camera-backup.ts"
import { type CameraImport, type ImportPlan, PassphraseWrong } from "#schema/camera-job.ts"
import { sourceUrlFault, splitSourceUrl } from "#schema/camera-url.ts"
import type { CameraId } from "#schema/common.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect, Redacted, Result, Schema } from "effect"
import { knownSeal, type PassphraseSeal } from "./camera-seal.ts"

const together = 50
const longestName = 120

/** A camera to be added, its passwords by the ids of what they are for; kept sealed as a whole. */
export const ImportInput = Schema.Struct({
  camera: BackupCamera,
  passwords: Schema.Record(Schema.String, Schema.String),
})
export type ImportInput = typeof ImportInput.Type

export type PlannedItem = ImportPlan["items"][number] & {
  /** Of the camera that is to be added or is there already; null: of none. */
  readonly cameraId: CameraId | null
  readonly input: ImportInput | null
}

const decode = Schema.decodeUnknownResult(BackupCamera)

const nameOf = (raw: unknown): string =>
  typeof raw === "object" && raw !== null && "name" in raw && typeof raw.name === "string" ?
    raw.name.slice(0, longestName) :
    ""

const streamsOf = (camera: BackupCamera) => camera.channels.flatMap(({ streams }) => streams)

/** What a schema cannot see; null: nothing is wrong. */
const faultOf = (camera: BackupCamera): string | null => {
  for (const { sourceUrl } of streamsOf(camera)) {
    const fault = sourceUrlFault(sourceUrl)
    if (fault !== null && fault !== undefined) return `the address of a stream: ${fault}`
    const { password, username } = splitSourceUrl(sourceUrl)
    if (password !== null || username !== null) return "the address of a stream has credentials in it"
  }
  if ((camera.host === null) !== (camera.port === null)) return "host and port go together"
  if (camera.driver === "onvif" && camera.host === null) return "its address is missing"
  const repeats = camera.channels.some(({ streams }) => new Set(streams.map(({ role }) => role)).size < streams.length)
  return repeats ? "a channel has two streams of one role" : null
}

/** Null: one of them does not open here. */
const opened = (camera: BackupCamera, seal: PassphraseSeal): Record<string, string> | null => {
  const passwords: Record<string, string> = {}
  const sealed: ReadonlyArray<readonly [string, string | null, BackupStream | undefined]> = [
    [camera.id, camera.sealedPassword, undefined],
    ...streamsOf(camera).map((stream) => [stream.id, stream.sealedPassword, stream] as const),
  ]
  for (const [id, text, stream] of sealed) {
    if (text === null) continue
    const secret = seal.open(backupSecret(camera, stream), text)
    if (secret === null) return null
    passwords[id] = Redacted.value(secret)
  }
  return passwords
}

type Verdict = Pick<PlannedItem, "outcome" | "detail" | "cameraId" | "input">
const verdict = (outcome: PlannedItem["outcome"], detail: string): Verdict => ({
  outcome,
  detail,
  cameraId: null,
  input: null,
})

interface Known {
  readonly missing: ReadonlySet<string>
  readonly taken: ReadonlyMap<string, string>
  /** Names by ids and addresses of earlier cameras of the document. */
  readonly seen: Map<string, string>
}

const judge = (camera: BackupCamera, { missing, seen, taken }: Known, seal: PassphraseSeal | null): Verdict => {
  if (camera.driver === "mobile") return verdict("unsupported", "a phone is claimed anew: prepare it")
  const fault = faultOf(camera)
  if (fault !== null) return verdict("invalid", fault)
  const keys = [
    `camera:${camera.id}`,
    ...camera.channels.map(({ id }) => `channel:${id}`),
    ...streamsOf(camera).flatMap(({ id, sourceUrl }) => [`stream:${id}`, `url:${sourceUrl}`]),
  ]
  const twice = keys.find((key) => seen.has(key))
  if (twice !== undefined) return verdict("clash", `the document has it already, as ${seen.get(twice)}`)
  for (const key of keys) seen.set(key, camera.name)
  if (!missing.has(`camera:${camera.id}`)) return { ...verdict("known", ""), cameraId: camera.id }
  const clash = keys.find((key) => taken.has(key))
  if (clash !== undefined) return verdict("clash", `it is here already, as ${taken.get(clash)}`)
  const passwords = seal === null ? {} : opened(camera, seal)
  if (passwords === null) return verdict("invalid", "a password does not open: the document was changed")
  const without = camera.hasPassword && passwords[camera.id] === undefined ||
    streamsOf(camera).some(({ hasPassword, id }) => hasPassword && passwords[id] === undefined)
  const detail = without ? "without its password" : ""
  return { outcome: "add", detail, cameraId: camera.id, input: { camera, passwords } }
}

export const makeImportPlanner = Effect.gen(function*() {
  const [store, jobs] = yield* Effect.all([CameraStore, CameraJobStore])

  const sealOf = Effect.fnUntraced(function*({ sealing }: CameraImport, passphrase: Redacted.Redacted | null) {
    if (passphrase === null) return null
    if (sealing === null) {
      return yield* InvalidInput.at("/headers/nightjar-passphrase", "the document was exported without passwords")
    }
    return (yield* knownSeal(passphrase, sealing)) ?? (yield* new PassphraseWrong())
  })

  return Effect.fnUntraced(function*(document: CameraImport, passphrase: Redacted.Redacted | null) {
    const seal = yield* sealOf(document, passphrase)
    const read: Array<Result.Result<BackupCamera, unknown>> = []
    for (const raw of document.cameras) {
      read.push(decode(raw))
      if (read.length % together === 0) yield* Effect.yieldNow
    }
    const cameras = read.flatMap((one) => Result.isSuccess(one) ? [one.success] : [])
    const streams = cameras.flatMap(streamsOf)
    const known: Known = {
      missing: yield* store.missing(cameras.map(({ id }) => id), []),
      taken: yield* jobs.taken({
        channels: cameras.flatMap(({ channels }) => channels.map(({ id }) => id)),
        streams: streams.map(({ id }) => id),
        urls: streams.map(({ sourceUrl }) => sourceUrl),
      }),
      seen: new Map(),
    }
    const items: Array<PlannedItem> = []
    for (const [number, one] of read.entries()) {
      const name = Result.isSuccess(one) ? one.success.name : nameOf(document.cameras[number])
      const told = Result.isSuccess(one) ? judge(one.success, known, seal) : verdict("invalid", "it cannot be read")
      items.push({ number, name, ...told })
      if (number % together === 0) yield* Effect.yieldNow
    }
    return items
  })
})
