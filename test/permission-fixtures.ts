/** Calls of the permission service and what its tests need around it, for tests. */
import { assert } from "@effect/vitest"
import type { NodeProcess } from "./harness/node-process.ts"

/** Of everybody whom the tests make. */
export const password = "correct horse battery"

/** What the tests look at in answers; each states what it expects to be there. */
export interface Body {
  readonly id: string
  readonly name: string
  readonly code: string
  readonly detail: string
  readonly version: number
  readonly accessToken: string
  readonly items: ReadonlyArray<Body>
  readonly nextCursor: string
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

export const calling = (node: NodeProcess, token: string): Call => async (method, path, body, headers = {}) => {
  const response = await fetch(`${node.url}${path}`, {
    method,
    headers: { "content-type": "application/json", authorization: `Bearer ${token}`, ...headers },
    signal: AbortSignal.timeout(15_000),
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  const json = (response.headers.get("content-type") ?? "").includes("json")
  return { status: response.status, headers: response.headers, body: (json ? JSON.parse(text) : {}) as Body }
}

export const tokenOf = async (node: NodeProcess, username: string) => {
  const { body, status } = await calling(node, "")("POST", "/auth/api/v1/auth/login", { username, password })
  assert.strictEqual(status, 200, JSON.stringify(body))
  return body.accessToken
}

/** The answer's body; fails with the problem where the status is another. */
export const expecting = async (status: number, answer: Promise<Answer>) => {
  const got = await answer
  assert.strictEqual(got.status, status, JSON.stringify(got.body))
  return got.body
}
export const code = async (status: number, answer: Promise<Answer>) => (await expecting(status, answer)).code

export const base = "/permission/api/v1"
export const unknownId = "0190163d-8694-7395-8ad4-5b8a3f3d0aff"

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
export const makeUser = (call: Call, username: string, roles: ReadonlyArray<string>) =>
  expecting(201, call("POST", "/auth/api/v1/users", { username, password, roles, mustChangePassword: false }))
export const makeGroup = async (call: Call, name: string, parentId: string | null = null) =>
  (await expecting(201, call("POST", `${base}/resource-groups`, { name, parentId }))).id

export const viewing = ["camera:read", "camera:live", "recording:read", "recording:search", "recording:replay"]
