/** Calls of the services of access and what their tests need around them. */
import { assert } from "@effect/vitest"
import { type NodeProcess, sleep } from "../harness/node-process.ts"
import { administratorPassword } from "../harness/two-nodes.ts"

/** Of everybody whom the tests make. */
export const password = administratorPassword
export const other = "another fine long one"
export const unknownId = "0190163d-8694-7395-8ad4-5b8a3f3d0aff"
export const auth = "/auth/api/v1"
export const permissions = "/permission/api/v1"

/** What the tests look at in answers; each states what it expects to be there. */
export interface Body {
  readonly id: string
  readonly name: string
  readonly username: string
  readonly code: string
  readonly version: number
  readonly accessToken: string
  readonly refreshToken: string
  readonly user: Body
  readonly items: ReadonlyArray<Body>
  readonly nextCursor: string | null
  readonly roles: ReadonlyArray<string>
  readonly users: ReadonlyArray<string>
  readonly rules: ReadonlyArray<string>
  readonly initialPassword: string
  readonly mustChangePassword: boolean
  readonly activeSessions: number
  readonly lastSignInAt: string | null
  readonly lockedUntil: string | null
  readonly retryAfterSeconds: number
  readonly passwordMinLength: number
  readonly current: boolean
  readonly detail: string
  readonly errors: ReadonlyArray<{ readonly pointer: string }>
  readonly kind: string
  readonly resourceCount: number
  readonly permission: string
  readonly permissions: ReadonlyArray<string>
  readonly allResources: boolean
  readonly allowed: boolean
  readonly reason: string
  readonly via: ReadonlyArray<string>
  readonly channels: ReadonlyArray<Body>
  readonly streams: ReadonlyArray<Body>
  readonly recordingToken: string
  readonly sessionId: string
  readonly uri: string
  readonly parentId: string | null
  readonly groupCount: number
  readonly administrative: boolean
  readonly scope: string | null
  readonly everything: boolean
  readonly builtIn: boolean
  readonly role: string
}

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Body
}

export type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>

/** Calls with a token; a path without a slash in front is one of the auth service. */
export const calling = (node: NodeProcess, token: string): Call => async (method, path, body, headers = {}) => {
  const response = await fetch(`${node.url}${path.startsWith("/") ? path : `${auth}/${path}`}`, {
    method,
    headers: { "content-type": "application/json", authorization: `Bearer ${token}`, ...headers },
    signal: AbortSignal.timeout(20_000),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const json = (response.headers.get("content-type") ?? "").includes("json")
  return { status: response.status, headers: response.headers, body: (json ? JSON.parse(text) : {}) as Body }
}

/** The answer's body; fails with the problem where the status is another. */
export const expecting = async (status: number, answer: Promise<Answer>) => {
  const got = await answer
  assert.strictEqual(got.status, status, JSON.stringify(got.body))
  return got.body
}
export const code = async (status: number, answer: Promise<Answer>) => (await expecting(status, answer)).code

export const login = (node: NodeProcess, username: string, secret = password) =>
  calling(node, "")("POST", "auth/login", { username, password: secret })
export const signIn = async (node: NodeProcess, username: string, secret = password) => {
  const { accessToken, refreshToken, user } = await expecting(200, login(node, username, secret))
  return { call: calling(node, accessToken), token: accessToken, refreshToken, user }
}
export const tokenOf = async (node: NodeProcess, username: string) => (await signIn(node, username)).token
export const administrator = async (node: NodeProcess) => (await signIn(node, "admin")).call

export const includes = (body: object | undefined, members: object) => assert.deepInclude(body ?? {}, members)

/** Answers the id. */
export const makeUser = async (call: Call, username: string, more: Record<string, unknown> = {}) =>
  (await expecting(201, call("POST", "users", { username, password, mustChangePassword: false, ...more }))).id

/** Changes security settings for as long as `use` runs. */
export const underRules = async (node: NodeProcess, rules: Record<string, unknown>, use: () => Promise<void>) => {
  const call = await administrator(node)
  const { version: _, ...before } = await expecting(200, call("GET", "settings/security"))
  await expecting(200, call("POST", "settings/security", rules))
  try {
    await use()
  } finally {
    await expecting(200, call("POST", "settings/security", before))
  }
}

/** Milliseconds until a call answers so; fails after a minute. */
export const until = async (status: number, ask: () => Promise<Answer>) => {
  const begun = performance.now()
  for (;;) {
    if ((await ask()).status === status) return performance.now() - begun
    assert.isBelow(performance.now() - begun, 60_000, `never ${status}`)
    await sleep(20)
  }
}

export const addCamera = (call: Call, name: string) =>
  expecting(
    201,
    call("POST", "/camera/api/v1/cameras", {
      name,
      driver: "rtsp",
      streams: [{ role: "main", sourceUrl: "rtsp://127.0.0.1:9/stream" }],
    }),
  )

export const makeRole = (call: Call, name: string, permissions: ReadonlyArray<string>) =>
  expecting(201, call("POST", "/auth/api/v1/roles", { name, permissions }))
export const makeGroup = async (call: Call, name: string, parentId: string | null = null) =>
  (await expecting(201, call("POST", `${permissions}/resource-groups`, { name, parentId }))).id

export const viewing = ["camera:read", "camera:live", "recording:read", "recording:search", "recording:replay"]
