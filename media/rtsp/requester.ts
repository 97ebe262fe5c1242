/**
 * Requests over a connection, one at a time: sequence numbers, authentication, time-outs; answers to the camera's own
 * requests.
 *
 * Invariants
 * 1. An answer that carries the number of an earlier, given-up request answers nothing. One without a number answers the
 *    request in hand.
 * 2. Refused credentials are tried once: cameras lock accounts. Only a nonce that is stale, or was good before, is renewed.
 */
import { Deferred, Effect, Random, Redacted } from "effect"
import type { SourceError, SourceOptions } from "../source.ts"
import { authorization, type Challenge, type Credentials, parseChallenges, strongest } from "./auth.ts"
import type { Connection } from "./connection.ts"
import {
  formatRequest,
  formatResponse,
  header,
  headerValues,
  integerHeader,
  type Message,
  type RequestHead,
  type ResponseHead,
} from "./message.ts"
import { withoutSecrets } from "./url.ts"

export type Response = Message<ResponseHead>
type Headers = ReadonlyArray<readonly [string, string]>

/** Silence after which a body that came in part counts as whole (a camera told a wrong length), milliseconds. */
const bodyGraceMs = 2000
/** Times that one request is sent at most: plain, with credentials, with a renewed nonce. */
const maxAttempts = 3

const isResponse = (message: Message): message is Response => message.head.kind === "response"
const isRequest = (message: Message): message is Message<RequestHead> => message.head.kind === "request"

export class Requester {
  /** `Session` of requests after the first SETUP. */
  session: string | null = null
  private readonly connection: Connection
  private readonly timeoutMs: number
  private readonly credentials: { readonly username: string; readonly password: Redacted.Redacted } | null
  private readonly random: (bound: number) => number
  private sequence = 0
  private pending: { readonly sequence: number; readonly answer: Deferred.Deferred<Response> } | null = null
  private challenge: Challenge | null = null
  private nonceCount = 0
  private nonceAccepted = false

  constructor(connection: Connection, options: SourceOptions, random: (bound: number) => number) {
    this.connection = connection
    this.timeoutMs = options.requestTimeoutMs
    this.random = random
    this.credentials = options.username === null ?
      null :
      { username: options.username, password: options.password ?? Redacted.make("") }
  }

  onMessage(message: Message): void {
    if (isResponse(message)) this.onResponse(message)
    else if (isRequest(message)) this.onRequest(message)
  }

  private onResponse(response: Response): void {
    const { pending } = this
    const sequence = integerHeader(response.head, "cseq")
    if (pending === null || (sequence !== null && sequence < pending.sequence)) return
    // 100 Continue: the answer proper follows.
    if (response.head.status < 200) return
    this.pending = null
    Deferred.doneUnsafe(pending.answer, Effect.succeed(response))
  }

  private onRequest({ head }: Message<RequestHead>): void {
    const known = head.method === "OPTIONS" || head.method === "GET_PARAMETER" || head.method === "SET_PARAMETER"
    const headers: Headers = [
      ["CSeq", header(head, "cseq") ?? "0"],
      ...(this.session === null ? [] : [["Session", this.session] as const]),
    ]
    this.connection.send(known ? formatResponse(200, "OK", headers) : formatResponse(501, "Not Implemented", headers))
    if (head.method === "TEARDOWN" || head.method === "REDIRECT") {
      this.connection.end("closed", `the camera sent ${head.method}`)
    }
  }

  private authorizationOf(method: string, url: string): Headers {
    if (this.challenge === null || this.credentials === null) return []
    const cnonce = Array.from({ length: 16 }, () => this.random(16).toString(16)).join("")
    const credentials: Credentials = {
      username: this.credentials.username,
      password: Redacted.value(this.credentials.password),
    }
    const request = { method, url, count: ++this.nonceCount, cnonce }
    return [["Authorization", authorization(this.challenge, credentials, request)]]
  }

  /** Sends without waiting for the answer. */
  private write(method: string, url: string, headers: Headers): number {
    const sequence = ++this.sequence
    this.connection.send(formatRequest(method, url, [
      ["CSeq", String(sequence)],
      ["User-Agent", "Nightjar"],
      ...(this.session === null ? [] : [["Session", this.session] as const]),
      ...this.authorizationOf(method, url),
      ...headers,
    ]))
    return sequence
  }

  private exchange(method: string, url: string, headers: Headers): Effect.Effect<Response, SourceError> {
    return Effect.suspend(() => {
      const answer = Deferred.makeUnsafe<Response>()
      this.pending = { sequence: this.write(method, url, headers), answer }
      const grace = Math.min(bodyGraceMs, this.timeoutMs / 2)
      const flush = Effect.sleep(grace).pipe(
        Effect.andThen(Effect.sync(() => this.connection.flushBody())),
        Effect.andThen(Effect.never),
      )
      return Effect.raceFirst(Effect.raceFirst(Deferred.await(answer), flush), Deferred.await(this.connection.ended))
    }).pipe(
      Effect.timeoutOrElse({
        duration: this.timeoutMs,
        orElse: () =>
          Effect.fail(this.connection.error("timeout", `no answer to ${method} within ${this.timeoutMs} ms`)),
      }),
      Effect.ensuring(Effect.sync(() => {
        this.pending = null
      })),
    )
  }

  /** The answer, whatever its status but 401. */
  readonly request = Effect.fnUntraced(
    function*(
      this: Requester,
      method: string,
      url: string,
      headers: Headers = [],
    ): Effect.fn.Return<Response, SourceError> {
      for (let attempt = 1;; attempt++) {
        const tried = this.challenge !== null
        const response = yield* this.exchange(method, url, headers)
        if (response.head.status !== 401) {
          this.nonceAccepted = this.challenge !== null
          return response
        }
        const next = strongest(parseChallenges(headerValues(response.head, "www-authenticate")))
        const refusal = this.refusal(next, tried, attempt)
        if (refusal !== null) return yield* this.connection.error("unauthorized", refusal)
        this.challenge = next
        this.nonceCount = 0
        this.nonceAccepted = false
      }
    },
  )

  /** Why a 401 is final; `null` where it is worth another attempt. */
  private refusal(next: Challenge | null, tried: boolean, attempt: number): string | null {
    if (this.credentials === null) return "the camera asks for a user name and a password"
    if (next === null) return "the camera asks for an authentication scheme that is not supported"
    const renewed = this.nonceAccepted || (next.scheme === "digest" && next.stale)
    return attempt >= maxAttempts || (tried && !renewed) ? "the camera refused the user name or the password" : null
  }

  /** Like `request`, but any status other than 2xx is an error. */
  readonly demand = Effect.fnUntraced(
    function*(
      this: Requester,
      method: string,
      url: string,
      headers: Headers = [],
    ): Effect.fn.Return<Response, SourceError> {
      const response = yield* this.request(method, url, headers)
      const { reason, status } = response.head
      if (status >= 200 && status < 300) return response
      const detail = withoutSecrets(`${method} was answered ${status} ${reason}`)
      return yield* this.connection.error(status === 404 ? "notFound" : "refused", detail)
    },
  )
}

export const makeRequester = (connection: Connection, options: SourceOptions): Effect.Effect<Requester> =>
  Random.Random.pipe(
    Effect.map((random) =>
      new Requester(connection, options, (bound) => Math.floor(random.nextDoubleUnsafe() * bound))
    ),
  )
