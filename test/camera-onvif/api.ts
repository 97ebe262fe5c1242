/** A whole node's cameras, asked over HTTP by somebody who is signed in. */
import { Effect } from "effect"
import { adminPassword } from "../harness/whole-node.ts"

export interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
}

export const cameras = "/camera/api/v1/cameras"

export const client = (base: string, username = "admin", password: string = adminPassword) =>
  Effect.gen(function*() {
    const send = (method: string, path: string, token: string | null, body?: unknown): Effect.Effect<Answer> =>
      Effect.promise(async () => {
        const response = await fetch(`${base}${path}`, {
          method,
          headers: {
            ...(token === null ? {} : { authorization: `Bearer ${token}` }),
            ...(body === undefined ? {} : { "content-type": "application/json" }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        const text = await response.text()
        return { status: response.status, body: text === "" ? {} : JSON.parse(text) as Record<string, unknown> }
      })
    const signedIn = yield* send("POST", "/auth/api/v1/auth/login", null, {
      username,
      password,
    })
    const token = String(signedIn.body["accessToken"])
    return {
      get: (path: string) => send("GET", path, token),
      post: (path: string, body: unknown) => send("POST", path, token, body),
      put: (path: string, body: unknown) => send("PUT", path, token, body),
      remove: (path: string) => send("DELETE", path, token),
    }
  })

/** Asks again until it is so. */
export const eventually = (what: string, ask: Effect.Effect<Answer>, so: (body: Answer["body"]) => boolean) =>
  Effect.gen(function*() {
    for (;;) {
      const { body } = yield* ask
      if (so(body)) return body
      yield* Effect.sleep(100)
    }
  }).pipe(Effect.timeoutOrElse({ duration: "60 seconds", orElse: () => Effect.die(new Error(`never: ${what}`)) }))

export type Api = Effect.Success<ReturnType<typeof client>>
export const items = ({ body }: Answer) => body["items"] as ReadonlyArray<Record<string, unknown>>
