/** What the wizard that adds cameras asks of the node. */
import { type CameraJobItem, maxBulk } from "#schema/camera-job.ts"
import type { Camera } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import { Redacted } from "effect"
import { jobItemsOf } from "./api-camera-job.ts"
import { readCamera, refusedWords } from "./api-camera.ts"
import { call, messageOf, recordChannel } from "./api.ts"
import type { Candidate } from "./parts/camera-candidate.ts"
import { reasonOf } from "./reasons.ts"
import { second } from "./time.ts"

/** How long a search listens; cameras answer within half a second as a rule, some sleep. */
const searchMs = 3000

export const discoverCameras = async () =>
  (await call((api) => api.cameraDevice.discoverCameras({ payload: { waitMs: searchMs } }))).items

export interface Credentials {
  readonly username: string
  readonly password: string
}

export type Outcome =
  | { readonly kind: "added"; readonly camera: Camera }
  /** `refused`: the camera does not take user name and password. */
  | { readonly kind: "failed"; readonly why: string; readonly refused: boolean }

export type OnvifCandidate = Candidate & { readonly kind: "onvif" }
export type StreamCandidate = Candidate & { readonly kind: "rtsp" }

const secretsOf = ({ password, username }: Credentials) => ({
  username: username === "" ? null : username,
  password: password === "" ? null : Redacted.make(password),
})

const streamOf = (candidate: StreamCandidate, credentials: Credentials) => {
  const main = { role: "main" as const, sourceUrl: candidate.url }
  const sub = candidate.subUrl === "" ? [] : [{ role: "sub" as const, sourceUrl: candidate.subUrl }]
  return { name: candidate.title, driver: "rtsp" as const, streams: [main, ...sub], ...secretsOf(credentials) }
}

/** A camera that has shown nothing by then is slow or away. */
const patience = 20
const undecided = new Set(["registered", "probing"])

/** The camera once it has been tried. */
const tried = async (id: CameraId): Promise<Camera> => {
  for (let turn = 0;; turn++) {
    const camera = await readCamera(id)
    if (!undecided.has(camera.status) || turn === patience) return camera
    await new Promise((resolve) => window.setTimeout(resolve, second))
  }
}

const forget = (id: CameraId) => call((api) => api.camera.deleteCamera({ params: { id }, headers: {} }))

/** Adds an RTSP stream, looks at it, and takes it away again where there is nothing to see. */
export const tryStream = async (candidate: StreamCandidate, credentials: Credentials): Promise<Outcome> => {
  try {
    const { body: camera } = await call((api) =>
      api.camera.addCamera({ headers: {}, payload: streamOf(candidate, credentials) })
    )
    const seen = await tried(camera.id)
    if (seen.status === "online" || seen.status === "degraded") return { kind: "added", camera: seen }
    await forget(camera.id)
    const why = seen.reason === "" ? "The camera shows no picture" : reasonOf(seen.reason).headline
    return { kind: "failed", why, refused: seen.status === "authFailed" }
  } catch (error) {
    return { kind: "failed", why: messageOf(error), refused: false }
  }
}

const pollMs = second / 2

/** What became of a camera of a job; null: nothing yet. */
const becameOf = async ({ cameraId, detail, outcome }: CameraJobItem): Promise<Outcome | null> => {
  if (outcome === "waiting") return null
  if (outcome === "added" && cameraId !== null) return { kind: "added", camera: await readCamera(cameraId) }
  if (outcome === "known") return { kind: "failed", why: "It is among the cameras already", refused: false }
  return outcome === "refused" ?
    { kind: "failed", why: refusedWords, refused: true } :
    { kind: "failed", why: detail === "" ? "It could not be added" : detail, refused: false }
}

interface Wanted {
  readonly candidate: OnvifCandidate
  readonly credentials: Credentials
}

/** One job; `tell` hears of each camera as soon as the node is done with it. */
const addOneJob = async (wanted: ReadonlyArray<Wanted>, tell: (key: string, outcome: Outcome) => void) => {
  const cameras = wanted.map(({ candidate: { host, port, title }, credentials }) => ({
    host,
    port,
    name: title,
    ...secretsOf(credentials),
  }))
  const { body: { id } } = await call((api) => api.cameraJob.bulkAdd({ headers: {}, payload: { cameras } }))
  const left = new Set(wanted.keys())
  while (left.size > 0) {
    await new Promise((resolve) => window.setTimeout(resolve, pollMs))
    for (const item of await jobItemsOf(id)) {
      const one = wanted[item.number]
      const became = one === undefined || !left.has(item.number) ? null : await becameOf(item)
      if (one === undefined || became === null) continue
      left.delete(item.number)
      tell(one.candidate.key, became)
    }
  }
}

/** Adds ONVIF cameras together: the node asks several at a time, each before it is added. */
export const addTogether = async (
  wanted: ReadonlyArray<Wanted>,
  tell: (key: string, outcome: Outcome) => void,
): Promise<void> => {
  for (let at = 0; at < wanted.length; at += maxBulk) {
    const part = wanted.slice(at, at + maxBulk)
    const open = new Set(part.map(({ candidate: { key } }) => key))
    try {
      await addOneJob(part, (key, outcome) => {
        open.delete(key)
        tell(key, outcome)
      })
    } catch (error) {
      for (const key of open) tell(key, { kind: "failed", why: messageOf(error), refused: false })
    }
  }
}

export interface Finish {
  readonly name: string
  /** Null: not recorded. */
  readonly retentionDays: number | null
}

/** Names the camera and records all its channels, as wished. */
export const finishCamera = async (camera: Camera, { name, retentionDays }: Finish): Promise<void> => {
  if (name !== camera.name) {
    const { description, enabled, id } = camera
    await call((api) =>
      api.camera.updateCamera({ params: { id }, headers: {}, payload: { name, description, enabled } })
    )
  }
  if (retentionDays === null) return
  for (const { id } of camera.channels) await recordChannel(id, retentionDays)
}

/** Runs `act` for each, so many at a time. */
export const inParallel = async <A>(
  items: ReadonlyArray<A>,
  width: number,
  act: (item: A) => Promise<void>,
): Promise<void> => {
  const left = [...items]
  const work = async () => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await act(item)
  }
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, work))
}
