/**
 * The connection to another node: HTTP/1.1 over kept-alive TLS with the one key that was learnt when the nodes were paired.
 *
 * Invariants
 * 1. Not a byte of a request leaves before the other side has shown the pinned key (SHA-256 of its SubjectPublicKeyInfo, RFC 7469,
 *    section 2.4). Names and dates of its certificate do not matter, nor who signed it: the key is the identity.
 * 2. Clear text only to a loopback address, or to one of the networks that the operator named ({@link PlainNetworks}): there whoever is
 *    on the way reads everything and may change what is answered.
 * 3. Bounds: {@link maxSockets} connections, {@link mostWaiting} requests that wait for one, a head of 16 KiB within the time of the
 *    request, and silence in a body for {@link silenceMs} at most.
 * 4. Nothing is buffered whole: bodies stream both ways at the pace of the slower side.
 */
import { addressOf, isLoopback, within } from "#schema/auth-network.ts"
import { Clock, Context, Duration, Effect, Fiber, Schema, type Scope, Semaphore, Stream } from "effect"
import type { IpNetwork } from "effect/net"
import { createHash, X509Certificate } from "node:crypto"
import { Agent, type AgentOptions, type ClientRequest, type IncomingMessage, request as httpRequest } from "node:http"
import { Agent as TlsAgent, request as httpsRequest } from "node:https"
import { connect as connectPlain } from "node:net"
import type { Duplex } from "node:stream"
import { connect, type TLSSocket } from "node:tls"

/** Streams of footage and requests besides. */
const maxSockets = 32
const mostWaiting = 256
/** Less than the 65 s for which a node keeps an idle connection. */
const idleMs = 50_000
const silenceMs = 30_000
const connectMs = 10_000
const triedFor = "3 seconds"

/** The other side cannot be reached, is not who it should be, or stopped in the middle. */
export class LinkFailed extends Schema.TaggedError<LinkFailed>()("LinkFailed", {
  detail: Schema.String,
}) {
  override get message(): string {
    return this.detail
  }
}

export interface Destination {
  /** `https://host:port` or `http://host:port`. */
  readonly address: string
  /** SHA-256 of the SubjectPublicKeyInfo, base64url; null where there is no TLS. */
  readonly tlsPin: string | null
}

export interface LinkRequest {
  readonly method: string
  /** With the query. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body:
    | null
    | { readonly bytes: Uint8Array }
    | { readonly stream: Stream.Stream<Uint8Array>; readonly contentLength: number | null }
  /** Until the head of the answer, a wait for a connection included. */
  readonly timeout: Duration.Input
}

export interface LinkAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Stream.Stream<Uint8Array, LinkFailed>
}

/** Networks beyond loopback that nodes may be asked over in clear text; none unless the operator says so. */
export const PlainNetworks = Context.Reference<ReadonlyArray<IpNetwork.IpNetwork>>("nightjar/cluster/PlainNetworks", {
  defaultValue: () => [],
})

/** Why a node must not be asked at this address; null where it may. */
export const whyNot = (address: string, plain: ReadonlyArray<IpNetwork.IpNetwork>): string | null => {
  const url = URL.parse(address)
  if (url === null || (url.protocol !== "https:" && url.protocol !== "http:")) return "its address is none"
  if (url.protocol === "https:") return null
  const host = hostOf(url)
  // A name may mean anything tomorrow: networks are of numbers.
  const ip = addressOf(host)
  return host === "localhost" || isLoopback(host) || (ip !== null && within(plain, ip)) ?
    null :
    "it serves clear text, which whoever is on the way reads and changes: that is for loopback addresses, and for networks named in " +
    "NIGHTJAR_PLAIN_HTTP"
}

/** Keeps connections to one node open, until its scope closes. */
export interface Link {
  readonly destination: Destination
  readonly request: (request: LinkRequest) => Effect.Effect<LinkAnswer, LinkFailed, Scope.Scope>
}

/** SHA-256 of the key of a certificate in DER, base64url. */
const pinOfCertificate = (der: Buffer): string =>
  createHash("sha256").update(new X509Certificate(der).publicKey.export({ format: "der", type: "spki" }))
    .digest("base64url")

/** The key that a connection has shown; null where it has shown none that can be read. */
const shownPin = (socket: TLSSocket): string | null => {
  try {
    const { raw } = socket.getPeerX509Certificate() ?? {}
    return raw === undefined ? null : pinOfCertificate(raw)
  } catch {
    return null
  }
}

type Made = (error: Error | null, socket: Duplex) => void

/** An agent whose connections are handed out once they have shown the key. */
class PinnedAgent extends TlsAgent {
  readonly #pin: string
  constructor(pin: string, options: AgentOptions) {
    super(options)
    this.#pin = pin
  }
  override createConnection(
    options: { readonly host?: string | null; readonly port?: number | string | null },
    made?: Made,
  ): undefined {
    const socket = connect({
      host: options.host ?? "",
      port: Number(options.port),
      // Whose signature is on it says nothing; the key does.
      rejectUnauthorized: false,
      minVersion: "TLSv1.2",
      ALPNProtocols: ["http/1.1"],
    })
    socket.setNoDelay(true)
    let told = false
    const tell = (error: Error | null) => {
      if (told) return
      told = true
      socket.setTimeout(0)
      if (error !== null) socket.destroy()
      made?.(error, socket)
    }
    socket.setTimeout(connectMs, () => tell(new Error("the connection took too long")))
    socket.once(
      "secureConnect",
      () =>
        tell(shownPin(socket) === this.#pin ? null : new Error("it shows another TLS key than the one known of it")),
    )
    socket.once("error", (error) => tell(error))
    socket.once("close", () => tell(new Error("the connection was closed")))
    // Handed over by the callback, once it is known whose it is.
    return undefined
  }
}

const reasonOf = (error: Error & { readonly code?: string }): string => {
  const known: Record<string, string> = {
    ECONNREFUSED: "nothing listens at its address",
    ECONNRESET: "the connection was cut",
    EHOSTUNREACH: "there is no way to its address",
    ENETUNREACH: "there is no way to its address",
    ENOTFOUND: "its name is not known",
    EAI_AGAIN: "its name cannot be looked up",
    ETIMEDOUT: "its address does not answer",
    EPROTO: "it does not speak TLS as expected",
  }
  return known[error.code ?? ""] ?? error.message.split("\n")[0]!.slice(0, 200)
}
const failed = (error: unknown) => new LinkFailed({ detail: error instanceof Error ? reasonOf(error) : "it failed" })

/** Brackets of an IPv6 address belong to the URL, not to the address. */
const hostOf = (url: URL): string => url.hostname.replace(/^\[|\]$/g, "")

const flat = (headers: IncomingMessage["headers"]): Record<string, string> =>
  Object.fromEntries(
    Object.entries(headers).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value]]
    ),
  )

/** One chunk, once the socket wants more. */
const push = (outgoing: ClientRequest, chunk: Uint8Array): Effect.Effect<void, LinkFailed> =>
  Effect.callback((resume) => {
    if (outgoing.destroyed) return resume(Effect.fail(new LinkFailed({ detail: "the connection was cut" })))
    if (outgoing.write(chunk)) return resume(Effect.void)
    const on = () => settle(Effect.void)
    const off = () => settle(Effect.fail(new LinkFailed({ detail: "the connection was cut" })))
    const settle = (result: Effect.Effect<void, LinkFailed>) => {
      outgoing.off("drain", on)
      outgoing.off("close", off)
      resume(result)
    }
    outgoing.once("drain", on)
    outgoing.once("close", off)
    return Effect.sync(() => settle(Effect.void))
  })

const upload = (outgoing: ClientRequest, body: LinkRequest["body"]): Effect.Effect<void, LinkFailed> => {
  if (body === null || "bytes" in body) {
    return Effect.sync(() => void (body === null ? outgoing.end() : outgoing.end(body.bytes)))
  }
  return Effect.andThen(
    Stream.runForEach(body.stream, (chunk) => push(outgoing, chunk)),
    Effect.sync(() => void outgoing.end()),
  )
}

const lengthOf = (body: LinkRequest["body"]): Record<string, string> => {
  if (body === null) return {}
  const length = "bytes" in body ? body.bytes.length : body.contentLength
  return length === null ? { "transfer-encoding": "chunked" } : { "content-length": String(length) }
}

/** The head of the answer. The request ends with the scope, whatever state it is in. */
const send = (url: URL, agent: Agent, asked: LinkRequest): Effect.Effect<IncomingMessage, LinkFailed, Scope.Scope> =>
  Effect.gen(function*() {
    const outgoing = yield* Effect.acquireRelease(
      Effect.try({
        try: () =>
          (url.protocol === "https:" ? httpsRequest : httpRequest)({
            agent,
            host: hostOf(url),
            port: url.port === "" ? (url.protocol === "https:" ? 443 : 80) : url.port,
            method: asked.method,
            path: asked.path,
            headers: { ...asked.headers, host: url.host, ...lengthOf(asked.body) },
            maxHeaderSize: 16 * 1024,
          }),
        catch: failed,
      }),
      (made) =>
        Effect.sync(() => {
          // What fails from now on concerns nobody any more.
          made.on("error", () => {})
          // A whole answer gave its connection back already.
          if (!(made as ClientRequest & { readonly res?: IncomingMessage }).res?.complete) made.destroy()
        }),
    )
    outgoing.setTimeout(silenceMs, () => outgoing.destroy(new Error("it fell silent")))
    const head = Effect.callback<IncomingMessage, LinkFailed>((resume) => {
      outgoing.once("response", (incoming) => {
        incoming.on("error", () => {})
        resume(Effect.succeed(incoming))
      })
      outgoing.on("error", (error) => resume(Effect.fail(failed(error))))
    })
    const uploading = yield* Effect.forkScoped(upload(outgoing, asked.body))
    // An upload that fails is a cut connection, which the head tells; one that the other side did not want whole is none.
    const stuck = Effect.andThen(Fiber.join(uploading), Effect.never)
    return yield* Effect.raceFirst(head, stuck)
  })

/** A link, kept until the scope closes. Fails for an address that must not be dialled. */
export const openLink = (
  destination: Destination,
  plain: ReadonlyArray<IpNetwork.IpNetwork>,
): Effect.Effect<Link, LinkFailed, Scope.Scope> =>
  Effect.gen(function*() {
    const url = URL.parse(destination.address)
    const reason = whyNot(destination.address, plain)
    if (url === null || reason !== null) return yield* new LinkFailed({ detail: reason ?? "its address is none" })
    const { tlsPin } = destination
    if (url.protocol === "https:" && tlsPin === null) {
      return yield* new LinkFailed({ detail: "its TLS key is not known" })
    }
    const options: AgentOptions = {
      keepAlive: true,
      keepAliveMsecs: 10_000,
      maxSockets,
      maxFreeSockets: 8,
      // Nagle's algorithm is off for every connection of an agent of Node.js.
      timeout: idleMs,
    }
    const agent = yield* Effect.acquireRelease(
      Effect.sync(() => tlsPin === null ? new Agent(options) : new PinnedAgent(tlsPin, options)),
      (made) => Effect.sync(() => made.destroy()),
    )
    const places = yield* Semaphore.make(maxSockets)
    const clock = yield* Clock.Clock
    const monotonicMs = () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
    let waiting = 0

    const place = Effect.suspend(() => {
      if (waiting >= mostWaiting) return Effect.fail(new LinkFailed({ detail: "too many requests wait for it" }))
      waiting += 1
      return Effect.ensuring(places.take(1), Effect.sync(() => void waiting--))
    })

    return {
      destination,
      request: Effect.fnUntraced(function*(asked) {
        const whole = Effect.gen(function*() {
          yield* Effect.acquireRelease(place, () => places.release(1), { interruptible: true })
          return yield* send(url, agent, asked)
        })
        const late = Effect.fail(new LinkFailed({ detail: "it does not answer in time" }))
        const dueMs = monotonicMs() + Duration.toMillis(asked.timeout)
        const incoming = yield* Effect.timeoutOrElse(whole, { duration: asked.timeout, orElse: () => late })
        // A process that stood still reads what came meanwhile before it looks at its timers: what was true then need not be now.
        if (monotonicMs() > dueMs) return yield* late
        return {
          status: incoming.statusCode ?? 0,
          headers: flat(incoming.headers),
          body: Stream.fromAsyncIterable(incoming as AsyncIterable<Uint8Array>, failed),
        }
      }),
    }
  })

/** The TLS key that answers at an address now; null where it serves clear text. Proves nothing: people compare it. */
export const learnTlsPin = (address: string): Effect.Effect<string | null, LinkFailed> => {
  const url = URL.parse(address)
  if (url === null || url.protocol !== "https:") return Effect.succeed(null)
  return Effect.callback<string, LinkFailed>((resume) => {
    const socket = connect({
      host: hostOf(url),
      port: url.port === "" ? 443 : Number(url.port),
      rejectUnauthorized: false,
      minVersion: "TLSv1.2",
      timeout: connectMs,
    })
    socket.once("secureConnect", () => {
      const pin = shownPin(socket)
      socket.destroy()
      resume(pin === null ? Effect.fail(new LinkFailed({ detail: "it shows no TLS key" })) : Effect.succeed(pin))
    })
    socket.once("timeout", () => socket.destroy(new Error("the connection took too long")))
    socket.once("error", (error) => resume(Effect.fail(failed(error))))
    return Effect.sync(() => socket.destroy())
  })
}

/** Whether something listens there. */
const accepts = (url: URL): Effect.Effect<boolean> =>
  Effect.callback((resume) => {
    const socket = connectPlain({ host: hostOf(url), port: url.port === "" ? 80 : Number(url.port) })
    const tell = (there: boolean) => {
      socket.destroy()
      resume(Effect.succeed(there))
    }
    socket.once("connect", () => tell(true))
    socket.once("error", () => tell(false))
    return Effect.sync(() => socket.destroy())
  })

/**
 * At which of its addresses to ask a node, those given before its own: the first, in their order, where its key is shown (where clear text is allowed: where
 * somebody listens). All are tried at once, for three seconds at most; the first of them where none answers.
 */
export const reachedAt = (
  { address: own, addresses, tlsPin }: Destination & { readonly addresses: ReadonlyArray<string> },
  plain: ReadonlyArray<IpNetwork.IpNetwork>,
): Effect.Effect<string> => {
  const answers = (address: string): Effect.Effect<boolean> => {
    const url = URL.parse(address)
    if (url === null || whyNot(address, plain) !== null) return Effect.succeed(false)
    const there = url.protocol === "http:" ?
      (tlsPin === null ? accepts(url) : Effect.succeed(false)) :
      Effect.map(Effect.orElseSucceed(learnTlsPin(address), () => null), (pin) => pin !== null && pin === tlsPin)
    return Effect.map(Effect.timeoutOption(there, triedFor), (told) => told._tag === "Some" && told.value)
  }
  const all = [...addresses, own]
  return Effect.gen(function*() {
    // The second is waited for only while the first is not there.
    const tried = yield* Effect.forEach(all, (address) => Effect.forkScoped(answers(address)))
    for (const [at, one] of tried.entries()) if (yield* Fiber.join(one)) return all[at]!
    return all[0]!
  }).pipe(Effect.scoped)
}

/** At most `most` bytes of an answer; more of them is a failure. */
export const bytesOf = (body: LinkAnswer["body"], most: number): Effect.Effect<Buffer, LinkFailed> =>
  Effect.gen(function*() {
    const chunks: Array<Uint8Array> = []
    let length = 0
    yield* Stream.runForEach(body, (chunk) => {
      length += chunk.length
      if (length > most) return Effect.fail(new LinkFailed({ detail: `its answer is larger than ${most} bytes` }))
      chunks.push(chunk)
      return Effect.void
    })
    return Buffer.concat(chunks, length)
  })
