/**
 * Random input against every operation of a whole node, as its administrator and, each fifth, as somebody whose role is narrowed.
 *
 * What must hold of each answer:
 *
 * 1. It comes, before the request's own time limit does.
 * 2. It is no 5xx, but for those that the operation itself lists and that say why (501 no such thing here, 502 and 503 of a server that
 *    somebody configured), never because of our own database.
 * 3. At 400 and above it is a problem document of that status, without a trace of SQL or of a stack.
 *
 * And of the node: it is still healthy, and still signs people in.
 */
import { Api } from "#http/contract/api.ts"
import { openApiPath } from "#http/contract/http-openapi.ts"
import { builtInRoles } from "#schema/permission.ts"
import { Effect } from "effect"
import { HttpApi, type HttpApiEndpoint } from "effect/http-api"
import { Agent, request } from "node:http"
import { random } from "../media/random.ts"
import {
  brokenBodies,
  contentTypes,
  type Input,
  type Known,
  mutated,
  oddHeaders,
  oddPaths,
  oddTexts,
  type Rng,
  seedOf,
  validInput,
} from "./fuzz-inputs.ts"
import { adminPassword, type WholeNode } from "./whole-node.ts"

/** Of the node under test; longer than any of its own dealings with others, shorter than {@link silenceMs}. */
export const requestTimeoutMs = 15_000
/** Whoever has not answered by then never will. */
const silenceMs = 40_000

interface Operation {
  readonly name: string
  readonly endpoint: HttpApiEndpoint.Top
  /** Statuses from 500 on that the operation lists. */
  readonly expected: ReadonlySet<number>
}

export const operations = (): ReadonlyArray<Operation> => {
  const found: Array<Operation> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, errors }) => {
      const expected = new Set([...errors.keys()].filter((status) => status >= 500))
      found.push({ name: `${endpoint.method} ${openApiPath(endpoint.path)}`, endpoint, expected })
    },
  })
  return found.toSorted((a, b) => (a.name < b.name ? -1 : 1))
}

interface Wire {
  readonly method: string
  readonly path: string
  readonly headers: Record<string, string | ReadonlyArray<string>>
  readonly body: string | Uint8Array | null
}

interface Answer {
  readonly status: number
  readonly contentType: string
  readonly traceId: string
  readonly text: string
}

/** `null`: no answer came. */
const send = (base: string, agent: Agent, wire: Wire): Promise<Answer | null> =>
  new Promise((resolve, reject) => {
    const { hostname, port } = new URL(base)
    const call = request({
      agent,
      hostname,
      port,
      method: wire.method,
      path: wire.path,
      headers: {
        ...wire.headers,
        // Node sends a body with DELETE without saying how long it is.
        ...(wire.body === null ? {} : { "content-length": String(Buffer.byteLength(wire.body)) }),
      } as Record<string, string | Array<string>>,
      signal: AbortSignal.timeout(silenceMs),
    })
    call.once("error", (error) =>
      error.name === "AbortError" || error.name === "TimeoutError" ? resolve(null) : reject(error))
    call.once("response", (response) => {
      const contentType = response.headers["content-type"] ?? ""
      const answer = { status: response.statusCode ?? 0, contentType, traceId: String(response.headers["x-trace-id"]) }
      if (contentType.startsWith("text/event-stream")) {
        call.destroy()
        return resolve({ ...answer, text: "" })
      }
      const chunks: Array<Buffer> = []
      response.on("data", (chunk: Buffer) =>
        chunks.push(chunk))
      response.once("error", () =>
        reject(new Error(`${answer.status}, but its body ends in the middle (trace ${answer.traceId})`)))
      response.once("end", () =>
        resolve({ ...answer, text: Buffer.concat(chunks).toString() }))
    })
    call.end(wire.body ?? undefined)
  })

/** As UTF-8 (what is no text becomes U+FFFD), percent-encoded. */
const escaped = (value: unknown): string =>
  [...Buffer.from(typeof value === "object" ? JSON.stringify(value) : String(value))].map((byte) =>
    /[\w.~-]/.test(String.fromCharCode(byte)) ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, "0")}`
  ).join("")

/** Longest path that is sent: a request's head has 16 KiB. */
const longestPath = 12_000

const write = ({ endpoint }: Operation, input: Input, token: string): Wire => {
  const path = endpoint.path.replace(/\*$/, ":path").replace(/:(\w+)/g, (_, name: string) => {
    const value = input.params[name] ?? "x"
    return typeof value === "string" && oddPaths.includes(value) ? value : escaped(value) || "%20"
  })
  const query = Object.entries(input.query).filter(([, value]) => value !== undefined)
    .flatMap(([name, value]) =>
      (Array.isArray(value) ? value : [value]).map((one) => `${escaped(name)}=${escaped(one)}`)
    )
    .join("&")
  const bodiless = endpoint.method === "GET" || input.body === undefined
  return {
    method: endpoint.method,
    path: `${path}${query === "" ? "" : `?${query}`}`.slice(0, longestPath),
    headers: { authorization: `Bearer ${token}`, ...(bodiless ? {} : { "content-type": input.contentType }) },
    body: bodiless ? null : JSON.stringify(input.body),
  }
}

const kinds = ["valid", "mutated", "path", "raw", "header"] as const
type Kind = (typeof kinds)[number]

const mutatedInput = (input: Input, rng: Rng): Input => {
  const parts = (["params", "query", "body"] as const).filter((part) =>
    part === "body" ? input.body !== undefined : Object.keys(input[part]).length > 0
  )
  const part = parts[rng(Math.max(1, parts.length))] ?? "query"
  if (part === "body") return { ...input, body: mutated(input.body, rng) }
  const names = Object.keys(input[part])
  const name = names[rng(Math.max(1, names.length))] ?? "nothing"
  const value = rng(2) === 0 ? oddTexts[rng(oddTexts.length)] : mutated(input[part][name], rng)
  return { ...input, [part]: { ...input[part], [name]: value } }
}

/** The `n`th request to an operation. */
const requestOf = (operation: Operation, things: Known, token: string, seed: number, n: number): [Kind, Wire] => {
  const own = seedOf(seed, operation.name, n)
  const rng = random(own)
  const input = validInput(operation.endpoint, things, own, 2 + rng(12))
  const kind = n % 2 === 0 ? "valid" : kinds[1 + rng(kinds.length - 1)]!
  const one = <A>(of: ReadonlyArray<A>): A => of[rng(of.length)]!
  if (kind === "mutated") return [kind, write(operation, mutatedInput(input, rng), token)]
  const wire = write(operation, input, token)
  if (kind === "path") {
    const names = Object.keys(input.params)
    if (names.length === 0) {
      return [kind, { ...wire, path: `${wire.path}${wire.path.includes("?") ? "&" : "?"}limit=${one(oddPaths)}` }]
    }
    return [kind, write(operation, { ...input, params: { ...input.params, [one(names)]: one(oddPaths) } }, token)]
  }
  if (kind === "raw" && operation.endpoint.method !== "GET") {
    const body = rng(2) === 0 ? one(brokenBodies) : wire.body ?? one(brokenBodies)
    return [kind, { ...wire, body, headers: { ...wire.headers, "content-type": one(contentTypes) } }]
  }
  if (kind === "header") return [kind, { ...wire, headers: { ...wire.headers, ...one(oddHeaders) } }]
  return [kind, wire]
}

const told = ({ body, headers, method, path }: Wire): string => {
  const { authorization, ...others } = headers
  const text = body === null ? "" : typeof body === "string" ? body : Buffer.from(body).toString("hex")
  const shown = String(authorization).length > 200 ? "" : " (authorization as signed in)"
  return `${method} ${path.slice(0, 400)} ${JSON.stringify(others).slice(0, 400)}${shown} ${text.slice(0, 1_500)}`
}

const spill = /\bat .+:\d+:\d+|\b(SELECT|INSERT INTO|UPDATE|DELETE FROM) [a-z_"]+ ?/

/** What every operation may answer, but none should while everything is there. */
const ours = new Set(["request_timed_out", "dependency_unavailable", "audit_unavailable"])

/** Why the answer is none that may be given; `null`: it may. */
const faultOf = (operation: Operation, answer: Answer | null): string | null => {
  if (answer === null) return `no answer within ${silenceMs} ms`
  const { contentType, status, text } = answer
  if (status < 400) return null
  // A head or a request line that no server reads is answered by Node itself.
  if ((status === 400 || status === 431) && text === "") return null
  if (!contentType.startsWith("application/problem+json")) return `${status} is no problem document: ${contentType}`
  const problem = JSON.parse(text) as {
    readonly status?: unknown
    readonly code?: unknown
    readonly dependency?: unknown
  }
  if (problem.status !== status || typeof problem.code !== "string") return `${status} is told as ${text}`
  if (spill.test(text)) return `${status} tells too much: ${text}`
  if (status < 500) return null
  return operation.expected.has(status) && !ours.has(problem.code) ? null : `${status} ${text}`
}

const narrow = "narrow"
const narrowPassword = "a long and dull password"

/** Things for inputs to name; whatever was deleted meanwhile is made again. */
const makeThings = async (base: string, token: string, round: number): Promise<Known> => {
  const make = async (path: string, body: unknown, method = "POST"): Promise<Record<string, unknown>> => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(silenceMs),
    })
    return await response.json() as Record<string, unknown>
  }
  const role = `role-${round}`
  const username = `user-${round}`
  await make("/auth/api/v1/roles", { name: role, description: "", permissions: ["camera:read"] })
  const user = await make("/auth/api/v1/users", { username, password: "a long and dull password", roles: [role] })
  if (round === 0) {
    // Somebody whose every call is decided by what his group contains.
    await make("/auth/api/v1/roles", { name: narrow, description: "", permissions: builtInRoles.operator.permissions })
    await make(`/permission/api/v1/roles/${narrow}/resource-groups`, { groupIds: [] }, "PUT")
    await make("/auth/api/v1/users", {
      username: narrow,
      password: narrowPassword,
      roles: [narrow],
      mustChangePassword: false,
    })
  }
  const group = await make("/permission/api/v1/resource-groups", { name: `group ${round}` })
  const camera = await make("/camera/api/v1/cameras", {
    name: `camera ${round}`,
    driver: "rtsp",
    enabled: false,
    streams: [{ role: "main", sourceUrl: "rtsp://127.0.0.1:1/a" }],
  })
  const [channel] = (camera["channels"] ?? []) as ReadonlyArray<{ id: string; streams: ReadonlyArray<{ id: string }> }>
  const recording = await make("/record/api/v1/recordings", {
    channelId: channel?.id,
    mode: "continuous",
    enabled: false,
    retentionDays: 1,
  })
  const ids = [user, group, camera, recording].map((thing) => thing["id"]).filter((id) => typeof id === "string")
  const of = (...values: ReadonlyArray<unknown>) => values.filter((value) => typeof value === "string")
  return {
    id: ids,
    user_id: of(user["id"]),
    users: of(user["id"]),
    name: [role],
    role: [role],
    roles: [role],
    role_name: [role],
    username: [username],
    groupId: of(group["id"]),
    groupIds: of(group["id"]),
    groups: of(group["id"]),
    parentId: of(group["id"]),
    channel_id: of(channel?.id),
    channelId: of(channel?.id),
    stream_id: of(channel?.streams[0]?.id),
    recordingToken: of(recording["recordingToken"]),
  }
}

export interface FuzzOptions {
  readonly seed: number
  /** Requests an operation. */
  readonly runs: number
  /** Of operations whose name contains it. */
  readonly only?: string
  /** Called a fault; the run goes on. */
  readonly fault: (line: string) => void
}

/** Answers how many requests of which kind were answered by which status. */
export const fuzz = Effect.fnUntraced(function*(node: WholeNode, options: FuzzOptions) {
  const { base } = node
  const { runs, seed } = options
  const agent = yield* Effect.acquireRelease(
    Effect.sync(() => new Agent({ keepAlive: true, maxSockets: 4 })),
    (one) => Effect.sync(() => one.destroy()),
  )
  const login = Effect.fnUntraced(function*(username: string, password: string) {
    // Guessed passwords may have locked the account, random settings its sessions: both are as they should be, and in the way.
    yield* node.sql`DELETE FROM auth_throttle`
    yield* node.sql`
      UPDATE auth_session SET ended_at = now()
      WHERE ended_at IS NULL AND user_id IN (SELECT id FROM auth_user WHERE username = ${username})`
    const response = yield* Effect.promise(() =>
      fetch(`${base}/auth/api/v1/auth/login`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ username, password }),
        signal: AbortSignal.timeout(silenceMs),
      })
    )
    const body = yield* Effect.promise(() => response.json() as Promise<Record<string, unknown>>)
    if (response.status !== 200) options.fault(`${username} cannot sign in: ${JSON.stringify(body)}`)
    return String(body["accessToken"])
  })

  const asAdmin = login("admin", adminPassword)
  const asNarrow = login(narrow, narrowPassword)
  let token = yield* asAdmin
  let round = 0
  let things = yield* Effect.promise(() => makeThings(base, token, round))
  let narrowToken = yield* asNarrow
  const tally = new Map<string, number>()
  const all = operations().filter(({ name }) => name.includes(options.only ?? ""))
  for (const [index, operation] of all.entries()) {
    for (let n = 0; n < runs; n++) {
      const [kind, wire] = requestOf(operation, things, (n + index) % 5 === 4 ? narrowToken : token, seed, n)
      const answer = yield* Effect.promise(() => send(base, agent, wire).catch((error: unknown) => error as Error))
      if (answer instanceof Error) {
        // A server that refuses a body may close before it has read all of it.
        if (wire.body !== null && wire.body.length > 500_000) continue
        options.fault(`seed ${seed}, ${operation.name}, request ${n} (${kind}): ${answer.message}: ${told(wire)}`)
        continue
      }
      const why = faultOf(operation, answer)
      if (why !== null) {
        const log = answer === null ? "" : `\n${node.told(answer.traceId)}`
        options.fault(`seed ${seed}, ${operation.name}, request ${n} (${kind}): ${why}\n  ${told(wire)}${log}`)
      }
      const key = `${kind} ${answer?.status ?? "silence"}${(answer?.status ?? 0) >= 500 ? ` ${operation.name}` : ""}`
      tally.set(key, (tally.get(key) ?? 0) + 1)
      if (answer?.status === 401 && kind !== "header" && answer.text.includes("\"code\":\"unauthenticated\"")) {
        token = yield* asAdmin
        narrowToken = yield* asNarrow
      }
    }
    if (operation.endpoint.method === "DELETE") {
      round += 1
      things = yield* Effect.promise(() => makeThings(base, token, round))
    }
  }
  yield* asAdmin
  const health = yield* Effect.promise(() => fetch(`${base}/health`, { signal: AbortSignal.timeout(silenceMs) }))
  if (health.status !== 200) options.fault(`The node is not healthy any more: ${health.status}`)
  return { tally: new Map([...tally].toSorted(([a], [b]) => (a < b ? -1 : 1))), operations: all.length }
})
