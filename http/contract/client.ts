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

/** A client over `fetch`. Each operation is `client.<group>.<operation>({ params, query, headers, payload })`. */
export const makeClient = (options: ClientOptions) =>
  HttpApiClient.make(Api, {
    baseUrl: options.baseUrl,
    transformClient: options.readWithinMs === undefined ? undefined : readingWithin(options.readWithinMs),
  }).pipe(Effect.provide(Layer.mergeAll(FetchHttpClient.layer, bearer(options.token))))

export type Client = Effect.Success<ReturnType<typeof makeClient>>
