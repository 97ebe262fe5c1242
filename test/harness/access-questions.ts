/**
 * The questions of the access matrix: every operation of the Api, with what it is asked, and what an answer says about the door.
 *
 * Invariants
 * 1. Whatever is asked harms nothing that a later question is about: bodies that cannot be read, versions that do not match, ids of
 *    nothing. The decision is made before any of these is looked at.
 * 2. Everybody is asked from behind a proxy of nobody's trust, so that being on this machine counts for nothing.
 */
import { Api } from "#http/contract/api.ts"
import { openApiPath } from "#http/contract/http-openapi.ts"
import { HttpApi } from "effect/http-api"
import type { PeerCaller } from "./peer-caller.ts"

/**
 * `viewer` and `hallOperator` hold what the roles of their names do, narrowed to one group, and are asked about what is in it and
 * about what is not (`Outside`); so is `peer`, another node that holds the role of `hallOperator`. All others are asked about the latter.
 */
export const columns = [
  "nobody",
  "noRole",
  "viewer",
  "viewerOutside",
  "hallOperator",
  "hallOperatorOutside",
  "operator",
  "admin",
  "peer",
  "peerOutside",
] as const
export type Column = (typeof columns)[number]
export type Verdict = "in" | "401" | "403" | "hidden" | "key" | "-"
export type Row = Readonly<Record<Column, Verdict>>

/** What an operation is asked with, where no or an unreadable body would not do. */
export interface Question {
  readonly operation: string
  /** Tells questions about one operation apart; the second column of the table. */
  readonly about: string
  /** Its body is about a thing. */
  readonly concerns?: true
  readonly body?: (things: Things) => unknown
  readonly params?: (things: Things) => Readonly<Record<string, string>>
}

/** Things of one camera, as an answer may show them. */
export interface Things {
  readonly camera: string
  readonly channel: string
  readonly stream: string
  readonly recording: string
  readonly recordingToken: string
  readonly replaySession: string
  readonly notification: string
}

export interface Caller {
  readonly name: Column
  readonly username: string
  readonly token: string | null
  /** Of another node, which proves each request. */
  readonly peer?: PeerCaller
}

const special: ReadonlyArray<Question> = [
  {
    operation: "POST /replay/api/v1/replay/uri",
    about: "",
    concerns: true,
    body: ({ recordingToken }) => ({ recordingToken, start: new Date(Date.now() - 60_000).toISOString() }),
  },
  {
    operation: "POST /record/api/v1/recordings",
    about: "",
    concerns: true,
    body: ({ channel }) => ({ channelId: channel, mode: "continuous", enabled: false, retentionDays: 1 }),
  },
  {
    operation: "POST /permission/api/v1/permissions/check",
    about: "oneself",
    concerns: true,
    body: ({ camera }) => ({ permission: "camera:read", resource: { kind: "camera", id: camera } }),
  },
  {
    operation: "POST /permission/api/v1/permissions/check",
    about: "somebody else",
    body: () => ({ permission: "user:write", username: "stranger" }),
  },
  {
    operation: "GET /permission/api/v1/users/{username}/resource-groups",
    about: "oneself",
    params: () => ({ username: "{self}" }),
  },
  {
    operation: "GET /permission/api/v1/users/{username}/resource-groups",
    about: "somebody else",
    params: () => ({ username: "stranger" }),
  },
]

/** Which thing a parameter of a path names; those that are not here name nothing that resource groups hold. */
const namedBy = (path: string, parameter: string): keyof Things | null => {
  if (path.startsWith("/camera/") && parameter === "id") return "camera"
  if (parameter === "channel_id") return "channel"
  if (parameter === "stream_id" || path.includes("/media-proxy/")) return "stream"
  if (path.startsWith("/record/api/v1/recordings/") && parameter === "id") return "recording"
  if (parameter === "recordingToken") return "recordingToken"
  if (path.startsWith("/replay/") && parameter === "sessionId") return "replaySession"
  if (path.startsWith("/notification/api/v1/notifications/") && parameter === "id") return "notification"
  return null
}

/** Every operation of the Api, `METHOD /path/{parameter}`, each with the questions asked about it. */
export const questions = (): ReadonlyArray<Question> => {
  const operations: Array<string> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint }) => {
      operations.push(`${endpoint.method} ${openApiPath(endpoint.path)}`)
    },
  })
  return operations.toSorted().flatMap((operation) => {
    const own = special.filter((one) => one.operation === operation)
    return own.length > 0 ? own : [{ operation, about: "" }]
  })
}

/** What ends the caller's session or pairing comes last, what takes something away before that. */
export const rank = ({ operation }: Question) =>
  operation.endsWith("/auth/logout") || operation.endsWith("/federation/peer") && operation.startsWith("DELETE") ?
    2 :
    operation.startsWith("DELETE") || operation.endsWith("read-all") ?
    1 :
    0

const isHidden = (code: unknown) =>
  typeof code === "string" && code.endsWith("_not_found") && code !== "footage_not_found"

export const made = {
  id: "01900000-0000-7000-8000-000000000001",
  hls: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
}

const fill = (question: Question, things: Things, caller: Caller): string => {
  const [, path = ""] = question.operation.split(" ")
  const given = question.params?.(things) ?? {}
  return path.replace(/\{(\w+)\}/g, (_, parameter: string) => {
    const named = namedBy(path, parameter)
    if (path.includes("/hls/") && parameter === "sessionId") return made.hls
    if (named !== null) return things[named]
    const value = given[parameter]
    if (value !== undefined) return value === "{self}" ? caller.username : value
    return /name|filename/i.test(parameter) ? "nothing-of-this-name" : parameter === "status" ? "online" : made.id
  })
}

export const concerns = (question: Question) => {
  const [, path = ""] = question.operation.split(" ")
  if (path.includes("/hls/")) return false
  const names = [...path.matchAll(/\{(\w+)\}/g)].some(([, parameter]) => namedBy(path, parameter!) !== null)
  return names || question.concerns === true
}

export interface Told {
  readonly status: number
  readonly code: unknown
  readonly body: string
}

export const ask = async (base: string, question: Question, things: Things, caller: Caller): Promise<Told> => {
  const [method = ""] = question.operation.split(" ")
  const hasBody = method !== "GET" && !(question.operation.endsWith("/auth/logout"))
  const path = fill(question, things, caller)
  const init: RequestInit = {
    method,
    headers: {
      "content-type": "application/json",
      accept: question.operation.endsWith("/stream") ? "text/event-stream" : "*/*",
      "if-match": "\"999999999999999\"",
      // From elsewhere, as far as anybody can tell.
      forwarded: "for=192.0.2.7",
      ...(caller.token === null ? {} : { authorization: `Bearer ${caller.token}` }),
    },
    ...(hasBody ? { body: JSON.stringify(question.body?.(things) ?? "no object") } : {}),
    signal: AbortSignal.timeout(40_000),
  }
  const response = await (caller.peer?.fetch(method, path, init) ?? fetch(`${base}${path}`, init))
  if (response.headers.get("content-type")?.startsWith("text/event-stream") === true) {
    await response.body?.cancel()
    return { status: response.status, code: null, body: "" }
  }
  const body = await response.text()
  const problem = response.headers.get("content-type")?.includes("problem+json") === true
  return { status: response.status, code: problem ? (JSON.parse(body) as { code?: unknown }).code : null, body }
}

export const verdictOf = (question: Question, { code, status }: Told): Verdict =>
  status === 401 && code === "unauthenticated" ?
    "401" :
    status === 403 && code === "forbidden" ?
    "403" :
    status === 404 && question.operation.includes("/hls/{sessionId}/") && code === "replay_session_not_found" ?
    "key" :
    concerns(question) && isHidden(code) ?
    "hidden" :
    "in"
