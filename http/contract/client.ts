/**
 * The typed client of the whole Api, for the dashboard and the command line: paths, payloads and errors come from the
 * contract, so a change that breaks a caller does not compile.
 */
import { Effect, Layer } from "effect"
import { FetchHttpClient, HttpClient, HttpClientError, HttpClientRequest } from "effect/http"
import { HttpApiClient, HttpApiMiddleware } from "effect/http-api"
import { AccessControl } from "./access.ts"
import { Api } from "./api.ts"

export interface ClientOptions {
  /** Scheme, host and port of a node. */
  readonly baseUrl: string
  /** The access token to send now; null sends none. */
  readonly token: () => string | null
  /** What is read (GET) fails as a request that was not answered after so long; without it, it waits as long as the connection. */
  readonly readWithinMs?: number
}

const notAnswered = (request: HttpClientRequest.HttpClientRequest, ms: number) =>
  new HttpClientError.HttpClientError({
    reason: new HttpClientError.TransportError({ request, description: `No answer within ${ms} ms` }),
  })

const readingWithin = (ms: number) => (client: HttpClient.HttpClient): HttpClient.HttpClient =>
  HttpClient.transform(client, (answer, request) =>
    request.method !== "GET" ?
      answer :
      Effect.timeoutOrElse(answer, { duration: ms, orElse: () => Effect.fail(notAnswered(request, ms)) }))

const bearer = (token: () => string | null) =>
  HttpApiMiddleware.layerClient(AccessControl, ({ next, request }) => {
    const current = token()
    return next(current === null ? request : HttpClientRequest.bearerToken(request, current))
  })

export type Client = HttpApiClient.ForApi<typeof Api>

/**
 * A client over `fetch`. Each operation is `client.<group>.<operation>({ params, query, headers, payload })`.
 *
 * A group is made when it is first used: all of them together take as long as half of a page's start.
 */
export const makeClient = ({ baseUrl, readWithinMs, token }: ClientOptions): Effect.Effect<Client> =>
  Effect.gen(function*() {
    const plain = yield* HttpClient.HttpClient
    const httpClient = readWithinMs === undefined ? plain : readingWithin(readWithinMs)(plain)
    const context = yield* Effect.context<HttpApiMiddleware.ForClient<AccessControl>>()
    const groups = new Map<string, unknown>()
    const made = (name: string) => {
      // What all have in common is enough here; whoever uses a group knows it by the client's type.
      const making = HttpApiClient.group(Api, { group: name as "camera", httpClient, baseUrl })
      const group = groups.get(name) ?? Effect.runSync(Effect.provide(making, context))
      groups.set(name, group)
      return group
    }
    const getters = Object.keys(Api.groups).map((name) => [name, { enumerable: true, get: () => made(name) }] as const)
    return Object.defineProperties({}, Object.fromEntries(getters)) as Client
  }).pipe(Effect.provide(Layer.mergeAll(FetchHttpClient.layer, bearer(token))))
