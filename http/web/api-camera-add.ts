/** What the wizard that adds cameras asks of the node. */
import type { Camera } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import { Redacted } from "effect"
import { readCamera, refusedWords } from "./api-camera.ts"
import { call, messageOf, recordChannel, tagOf } from "./api.ts"
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

const payloadOf = (candidate: Candidate, name: string, { password, username }: Credentials) => {
  const credentials = {
    username: username === "" ? null : username,
    password: password === "" ? null : Redacted.make(password),
  }
  if (candidate.kind === "onvif") {
    return { name, driver: "onvif" as const, host: candidate.host, port: candidate.port, ...credentials }
  }
  const main = { role: "main" as const, sourceUrl: candidate.url }
  const sub = candidate.subUrl === "" ? [] : [{ role: "sub" as const, sourceUrl: candidate.subUrl }]
  return { name, driver: "rtsp" as const, streams: [main, ...sub], ...credentials }
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

/**
 * Adds one camera and tells what came of it. An ONVIF camera is asked before it is added; an RTSP stream is added, looked at, and
 * taken away again where there is nothing to see.
 */
export const tryCamera = async (candidate: Candidate, name: string, credentials: Credentials): Promise<Outcome> => {
  try {
    const { body: camera } = await call((api) =>
      api.camera.addCamera({ headers: {}, payload: payloadOf(candidate, name, credentials) })
    )
    if (candidate.kind === "onvif") return { kind: "added", camera }
    const seen = await tried(camera.id)
    if (seen.status === "online" || seen.status === "degraded") return { kind: "added", camera: seen }
    await forget(camera.id)
    const why = seen.reason === "" ? "The camera shows no picture" : reasonOf(seen.reason).headline
    return { kind: "failed", why, refused: seen.status === "authFailed" }
  } catch (error) {
    const refused = tagOf(error) === "CameraAuthFailed"
    return { kind: "failed", why: refused ? refusedWords : messageOf(error), refused }
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
