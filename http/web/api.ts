/**
 * What the pages ask of the node: the typed client behind plain functions, and the access token's life.
 *
 * Invariants
 * 1. The access token is kept in memory alone; a 401 refreshes it once, then the person is asked to sign in again.
 * 2. Lists are read whole, page by page, up to {@link mostPages} pages.
 */
import { type Client, makeClient } from "#http/contract/client.ts"
import type { Profile } from "#schema/auth.ts"
import { PtzHeld } from "#schema/camera-ptz.ts"
import type { Camera } from "#schema/camera.ts"
import type { ChannelId, Interval, RecordingToken } from "#schema/common.ts"
import { BadRequest, Problem } from "#schema/problem.ts"
import type { Recording } from "#schema/record-config.ts"
import { Effect, Option, Redacted, Schema } from "effect"
import { toldFaults, unsentFaults } from "./faults.ts"
import type { CameraInput } from "./parts/camera-form.tsx"
import { clockOf } from "./time.ts"

const mostPages = 20

/** What asks again and again waits for its answer: a node that froze must not keep it, nor one of the browser's six connections. */
const readWithinMs = 60_000

/** Set while the cookie may hold a session, so that a browser without one is not asked for it. It is no secret. */
const sessionHint = "nightjar.session"

const decodeProblem = Schema.decodeUnknownOption(Problem)

let accessToken: string | null = null
let signedOut: () => void = () => undefined
let refused: () => void = () => undefined
const client: Promise<Client> = Effect.runPromise(
  makeClient({ baseUrl: location.origin, token: () => accessToken, readWithinMs }),
)

const run = async <A, E>(ask: (client: Client) => Effect.Effect<A, E>): Promise<A> =>
  Effect.runPromise(ask(await client))

export const tagOf = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string" ? error._tag : ""

/** A failure in words for a person. */
export const messageOf = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  if (tagOf(error) === "HttpClientError") return "The recorder does not answer"
  if (error instanceof PtzHeld) {
    return `${error.username} moves the camera until ${clockOf(error.until)}. Try again then.`
  }
  if (tagOf(error) === "SchemaError") return unsentFaults(error.message)
  return error instanceof BadRequest && error.errors.length > 0 ? toldFaults(error.errors) : error.message
}

let refreshing: Promise<Profile> | null = null

/** When the access token ends, epoch milliseconds. */
let expiresAt = 0

/** What is left of a token that is still sent: the way to the node and its clock take some of it. */
const tokenReserve = 60_000

const keep = (accessTokenNow: string, expiresInSeconds: number): void => {
  accessToken = accessTokenNow
  expiresAt = Date.now() + expiresInSeconds * 1000
}

/** Tabs share the cookie. Without a lock (pages that are not from a secure origin have none) two of them could use it up at once. */
const alone = <A>(act: () => Promise<A>): Promise<A> =>
  "locks" in navigator ? navigator.locks.request("nightjar.refresh", act) : act()

/** One refresh at a time: a refresh token is used up by its first use. */
export const refresh = (): Promise<Profile> => {
  refreshing ??= alone(() => run((api) => api.auth.refresh({ payload: {} }))).then(({ body }) => {
    keep(body.accessToken, body.expiresIn)
    return body.user
  }, (error: unknown) => {
    if (tagOf(error) === "InvalidRefreshToken") {
      localStorage.removeItem(sessionHint)
      signedOut()
    }
    throw error
  }).finally(() => {
    refreshing = null
  })
  return refreshing
}

/** As {@link run}, for a signed-in user. */
export const call = async <A, E>(ask: (client: Client) => Effect.Effect<A, E>): Promise<A> => {
  try {
    return await run(ask)
  } catch (error) {
    if (tagOf(error) === "Forbidden") refused()
    if (tagOf(error) !== "Unauthenticated") throw error
    await refresh()
    return run(ask)
  }
}

/** An access token that is good for a while yet. */
export const freshToken = async (): Promise<string> => {
  if (accessToken === null || expiresAt - Date.now() < tokenReserve) await refresh()
  return accessToken ?? ""
}

/** The body of a path as the node sends it, for files; `onBytes` hears how many bytes have come so far. */
export const readFile = async (
  path: string,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
  headers: Readonly<Record<string, string>> = {},
): Promise<Blob> => {
  const answer = await fetch(path, { signal, headers: { ...headers, authorization: `Bearer ${await freshToken()}` } })
  if (!answer.ok) {
    const problem = decodeProblem(await answer.json().catch(() => null))
    throw new Error(
      Option.match(problem, { onNone: () => `The recorder answers ${answer.status}`, onSome: (one) => one.detail }),
    )
  }
  let bytes = 0
  const counting = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform: (chunk, out) => {
      bytes += chunk.byteLength
      onBytes(bytes)
      out.enqueue(chunk)
    },
  })
  const type = answer.headers.get("content-type") ?? "application/octet-stream"
  // The browser gathers the parts of a blob on disk once they are many.
  return new Blob([await new Response(answer.body?.pipeThrough(counting)).blob()], { type })
}

/** Called when the session has ended and cannot be refreshed. */
export const whenSignedOut = (listener: () => void): void => {
  signedOut = listener
}

/** Called when something was not allowed: what one may do has changed, or the page did not know it. */
export const whenRefused = (listener: () => void): void => {
  refused = listener
}

/** Digits are a one-time code, anything else is taken for a recovery code. */
export const factorProof = (code: string) =>
  /^[\d\s]+$/.test(code) ? { otp: Redacted.make(code) } : { recoveryCode: Redacted.make(code) }

/** `code`: of the second factor, for an account that has one. */
export const signIn = async (username: string, password: string, code: string | null): Promise<Profile> => {
  const proof = code === null ? {} : factorProof(code)
  const { body } = await run((api) =>
    api.auth.login({ payload: { username, password: Redacted.make(password), cookie: true, ...proof } })
  )
  keep(body.accessToken, body.expiresIn)
  localStorage.setItem(sessionHint, "1")
  return body.user
}

/** Takes up the session that the cookie holds; null where there is none. */
export const signedInAgain = async (): Promise<Profile | null> =>
  localStorage.getItem(sessionHint) === null ? null : refresh()

export const signOut = async (): Promise<void> => {
  localStorage.removeItem(sessionHint)
  await call((api) => api.auth.logout())
  accessToken = null
}

interface PageQuery {
  readonly limit: number
  readonly cursor?: string
}

export const everything = async <A, E>(
  page: (
    api: Client,
    query: PageQuery,
  ) => Effect.Effect<{ readonly items: ReadonlyArray<A>; readonly nextCursor: string | null }, E>,
): Promise<ReadonlyArray<A>> => {
  const items: Array<A> = []
  let query: PageQuery = { limit: 500 }
  for (let count = 0; count < mostPages; count++) {
    const next = await call((api) => page(api, query))
    items.push(...next.items)
    if (next.nextCursor === null) break
    query = { limit: 500, cursor: next.nextCursor }
  }
  return items
}

export const listCameras = () => everything((api, query) => api.camera.cameras({ query }))
export const listRecordings = () => everything((api, query) => api.record.recordings({ query }))

const streamsOf = (input: CameraInput) => [
  { role: "main" as const, sourceUrl: input.sourceUrl, transport: input.transport },
  ...(input.subUrl === "" ? [] : [{ role: "sub" as const, sourceUrl: input.subUrl, transport: input.transport }]),
]

const credentials = (input: CameraInput) => ({
  username: input.username === "" ? null : input.username,
  ...(input.password === "" ? {} : { password: Redacted.make(input.password) }),
})

/** Records a channel from now on. */
export const recordChannel = (channelId: ChannelId, retentionDays: number) =>
  call((api) =>
    api.record.createRecording({
      headers: {},
      payload: { channelId, mode: "continuous", enabled: true, retentionDays },
    })
  )

/** Records a camera's first channel from now on. */
export const startRecording = async (camera: Camera, retentionDays: number): Promise<void> => {
  const channel = camera.channels[0]
  if (channel !== undefined) await recordChannel(channel.id, retentionDays)
}

export const changeCamera = async (camera: Camera, input: CameraInput): Promise<void> => {
  await call((api) =>
    api.camera.updateCamera({
      params: { id: camera.id },
      headers: {},
      payload: { name: input.name, description: camera.description, enabled: camera.enabled, ...credentials(input) },
    })
  )
  const channel = camera.channels[0]
  if (channel === undefined) return
  for (const wanted of streamsOf(input)) {
    const known = channel.streams.find((stream) => stream.role === wanted.role)
    if (known === undefined) {
      await call((api) => api.camera.addStream({ params: { channel_id: channel.id }, headers: {}, payload: wanted }))
    } else if (known.sourceUrl !== wanted.sourceUrl || known.transport !== wanted.transport) {
      const { role: _, ...change } = wanted
      await call((api) =>
        api.camera.updateStream({
          params: { stream_id: known.id },
          headers: {},
          payload: { ...change, enabled: known.enabled },
        })
      )
    }
  }
  const dropped = channel.streams.find((stream) => stream.role === "sub")
  if (input.subUrl === "" && dropped !== undefined) {
    await call((api) => api.camera.deleteStream({ params: { stream_id: dropped.id }, headers: {} }))
  }
}

/** Deletes the camera, and before it the recordings given, with their footage. */
export const deleteCamera = async (camera: Camera, recordings: ReadonlyArray<Recording>): Promise<void> => {
  for (const one of recordings) await call((api) => api.record.deleteRecording({ params: { id: one.id }, headers: {} }))
  await call((api) => api.camera.deleteCamera({ params: { id: camera.id }, headers: {} }))
}

export const toggleRecording = (recording: Recording) =>
  call((api) =>
    api.record.toggleRecording({ params: { id: recording.id }, headers: {}, payload: { enabled: !recording.enabled } })
  )

export const keepFor = (recording: Recording, retentionDays: number) => {
  const { enabled, maxBytes, mode, postEventSeconds, preEventSeconds, schedule } = recording
  return call((api) =>
    api.record.updateRecording({
      params: { id: recording.id },
      headers: {},
      payload: { enabled, maxBytes, mode, postEventSeconds, preEventSeconds, schedule, retentionDays },
    })
  )
}

/** What is recorded and missing, rounded outwards to so many columns that its size does not depend on the footage. */
export const timelineOf = (recordingToken: RecordingToken, interval: Interval, pixels: number) =>
  call((api) => api.search.timelineRange({ params: { recordingToken }, query: { ...interval, pixels } }))

export const coverageOf = (recording: Recording, interval: Interval) =>
  call((api) => api.record.recordingCoverage({ params: { id: recording.id }, query: interval }))

/** Dates of a month (`YYYY-MM`) with footage, in a time zone. */
export const recordedDates = async (recordingToken: RecordingToken, month: string, timeZone: string) =>
  (await call((api) => api.search.calendarMonth({ params: { recordingToken }, query: { month, timeZone } }))).dates

/** What there is to replay; `newest` is null while there is no footage. */
export const replayInfo = (recordingToken: RecordingToken) =>
  call((api) => api.replay.info({ params: { recordingToken } }))

/** A replay session; without `end` it grows with the recording. */
export const openReplay = async (recordingToken: RecordingToken, start: number, end?: number, speed?: number) => {
  const { body } = await call((api) =>
    api.replay.uri({
      headers: {},
      payload: {
        recordingToken,
        start: Math.round(start),
        ...(end === undefined ? {} : { end: Math.round(end) }),
        ...(speed === undefined ? {} : { speed }),
      },
    })
  )
  return body
}

export const listFolders = async () => (await call((api) => api.record.refreshPartitions())).items
export const nodeHealth = () => call((api) => api.health.healthDetailed())
