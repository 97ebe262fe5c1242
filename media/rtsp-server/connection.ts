/**
 * One player's connection and its session (RFC 2326): requests are answered in order, the session ends with the connection.
 *
 * Invariants
 * 1. Requests that wait are {@link maxRequests} at most, answers that wait {@link maxAnswerBytes} (behind what a reader is sent);
 *    more ends the connection.
 * 2. Who is not let in within {@link greetingMs} is disconnected; after that, whoever says nothing for {@link sessionTimeoutMs} and is
 *    not sent anything by this very connection. A reader by UDP is alive by its requests and its reports.
 * 3. Credentials that are refused are answered late, and {@link maxRefusals} times.
 */
import type { StreamId } from "#schema/common.ts"
import { Clock, Deferred, Effect, Exit, Queue, RcMap, Scope } from "effect"
import { randomBytes } from "node:crypto"
import type { Socket } from "node:net"
import { Malformed } from "../codec/malformed.ts"
import type { RtspGate, RtspGrant, RtspSession } from "../rtsp-server.ts"
import { header, type RequestHead } from "../rtsp/message.ts"
import { type Answer, formatAnswer, methods, type Refusal, refuse } from "./answer.ts"
import { challenges, type RtspAccount, showsAccount, tokenOf } from "./credentials.ts"
import { describe, type TrackName, trackNames } from "./description.ts"
import { channelOf, type Feed } from "./feed.ts"
import { type Destination, Reader, type UdpSockets } from "./reader.ts"
import { RequestReader } from "./request-reader.ts"
import { plainAddress, type Target, targetOf, transportText, type Wish, wishesOf } from "./transport.ts"

const maxRequests = 16
const maxAnswerBytes = 64 * 1024
/** The largest group of pictures, and what a reader may be behind. */
const maxStreamBytes = 24 * 1024 * 1024
const greetingMs = 10_000
export const sessionTimeoutMs = 60_000
/** Players renew their sessions a little late. */
const graceMs = 5_000
const refusalMs = 500
const maxRefusals = 5
/** A camera that was not watched until now has to connect and come to its first key picture. */
const describeMs = 15_000

/** What connections have in common. */
export interface Door {
  readonly account: RtspAccount | null
  readonly gate: RtspGate["Service"]
  readonly feeds: RcMap.RcMap<StreamId, Feed | null>
  readonly udp: UdpSockets & { readonly ports: readonly [number, number] } | null
  /** Told once the caller was let in; false: there are as many as may be. */
  readonly admitted: (connection: Connection) => boolean
  /** From where a reader's reports come by UDP. */
  readonly listen: (address: string, port: number, connection: Connection) => void
}

interface Session {
  readonly id: string
  readonly sinceMs: number
  readonly reader: Reader
}

export class Connection {
  private readonly door: Door
  private readonly socket: Socket
  private readonly clock: Clock.Clock
  private readonly scope: Scope.Scope
  private readonly nonce = randomBytes(16).toString("hex")
  private readonly requests: RequestReader
  private readonly remote: string
  private refusals = 0
  private entered: { readonly streamId: StreamId; readonly grant: RtspGrant; readonly byAccount: boolean } | null = null
  private held: { readonly feed: Feed; readonly scope: Scope.Closeable } | null = null
  private session: Session | null = null
  private userAgent: string | null = null
  private readonly openedMs: number
  private lastMs: number

  constructor(
    door: Door,
    socket: Socket,
    clock: Clock.Clock,
    scope: Scope.Scope,
    onRequest: (head: RequestHead) => void,
  ) {
    this.door = door
    this.socket = socket
    this.clock = clock
    this.scope = scope
    this.openedMs = clock.currentTimeMillisUnsafe()
    this.lastMs = this.openedMs
    this.remote = `${plainAddress(socket.remoteAddress ?? "")}:${socket.remotePort ?? 0}`
    this.requests = new RequestReader({
      onRequest,
      onPacket: (channel, bytes, from, to) => {
        // Reports come on the odd channels.
        if (channel % 2 === 1) this.session?.reader.received(bytes, from, to)
      },
    })
  }

  /** What it was let in by and may be taken back; null for the account of the door. */
  get revocable(): RtspGrant | null {
    return this.entered === null || this.entered.byAccount ? null : this.entered.grant
  }

  get streamId(): StreamId | null {
    return this.session?.reader.feed.streamId ?? null
  }

  read(bytes: Buffer): void {
    try {
      this.requests.feed(bytes)
    } catch (error) {
      if (!(error instanceof Malformed)) throw error
      this.close()
    }
  }

  close(): void {
    this.socket.destroy()
  }

  /** Invariant 2. */
  sweep(nowMs: number): void {
    if (this.entered === null) {
      if (nowMs - this.openedMs > greetingMs) this.close()
      return
    }
    const reader = this.session?.reader
    const fed = reader?.playing === true && [...reader.destinations.values()].some(({ kind }) => kind === "tcp")
    if (!fed && nowMs - this.lastMs > sessionTimeoutMs + graceMs) this.close()
  }

  /** A datagram from the reader's ports. */
  datagram(bytes: Buffer, rtcp: boolean): void {
    this.lastMs = this.clock.currentTimeMillisUnsafe()
    if (rtcp) this.session?.reader.received(bytes, 0, bytes.length)
  }

  told(): RtspSession | null {
    if (this.session === null || this.entered === null) return null
    const { id, reader, sinceMs } = this.session
    const { destinations, jitterMs, lostPackets, playing, sentBytes, sentPackets, skippedPictures } = reader
    return {
      id,
      streamId: reader.feed.streamId,
      remote: this.remote,
      userAgent: this.userAgent,
      holder: this.entered.grant.holder,
      transport: [...destinations.values()].some(({ kind }) => kind === "udp") ? "udp" : "tcp",
      state: playing ? "playing" : "ready",
      since: sinceMs,
      sentBytes,
      sentPackets,
      skippedPictures,
      lostPackets,
      jitterMs,
    }
  }

  readonly respond = (head: RequestHead): Effect.Effect<void> =>
    Effect.gen({ self: this }, function*() {
      this.lastMs = this.clock.currentTimeMillisUnsafe()
      const cseq = header(head, "cseq")
      const answer = cseq === null ?
        { status: 400 } :
        yield* this.answer(head).pipe(Effect.catchTag("Refusal", (refusal) => Effect.succeed<Answer>(refusal)))
      if (this.socket.destroyed) return
      this.write(cseq ?? "0", answer)
      answer.after?.()
    })

  private write(cseq: string, answer: Answer): void {
    this.socket.write(formatAnswer(cseq, answer))
    const allowed = maxAnswerBytes + (this.session === null ? 0 : maxStreamBytes)
    if (this.socket.writableLength > allowed) this.close()
  }

  private answer(head: RequestHead): Effect.Effect<Answer, Refusal> {
    this.userAgent ??= header(head, "user-agent")?.slice(0, 200) ?? null
    const required = header(head, "require")
    if (required !== null) return refuse(551, [["Unsupported", required]])
    switch (head.method) {
      case "OPTIONS":
        return Effect.succeed({ status: 200, headers: [["Public", methods]] })
      case "DESCRIBE":
        return this.describe(head)
      case "SETUP":
        return this.setUp(head)
      case "PLAY":
      case "PAUSE":
      case "TEARDOWN":
        return this.inSession(head)
      case "GET_PARAMETER":
      case "SET_PARAMETER":
        return this.keepAlive(head)
      default:
        return refuse(501, [["Public", methods]])
    }
  }

  /** Who asks may read the stream, or it is refused. */
  private readonly enter = (head: RequestHead, { streamId }: Target): Effect.Effect<void, Refusal> =>
    Effect.gen({ self: this }, function*() {
      if (this.entered?.streamId === streamId) return
      const { account, gate } = this.door
      const authorization = header(head, "authorization")
      const token = tokenOf(head.url, authorization)
      const asked = { method: head.method, url: head.url, authorization }
      const byAccount = showsAccount(account, this.nonce, asked)
      const grant = byAccount ?
        { holder: account?.username ?? "" } :
        token === null ?
        null :
        yield* gate.enter(streamId, token).pipe(
          Effect.catchTag("RtspRefused", () => Effect.succeed(null)),
          Effect.catchTag("RtspGateClosed", () => refuse(503)),
        )
      if (grant === null) {
        const shown = authorization !== null || token !== null
        if (shown) yield* Effect.sleep(refusalMs)
        if (shown && ++this.refusals >= maxRefusals) this.close()
        return yield* refuse(
          401,
          challenges(account, this.nonce).map((challenge) => ["WWW-Authenticate", challenge] as const),
        )
      }
      this.entered = { streamId, grant, byAccount }
      if (!this.door.admitted(this)) return yield* refuse(453)
    })

  /** The stream's feed, held until another is asked for or the connection ends. */
  private readonly feed = (streamId: StreamId): Effect.Effect<Feed, Refusal> =>
    Effect.gen({ self: this }, function*() {
      if (this.held === null || this.held.feed.streamId !== streamId || this.held.feed.stale) {
        if (this.held !== null) yield* Scope.close(this.held.scope, Exit.void)
        this.held = null
        const scope = yield* Scope.fork(this.scope)
        const get = RcMap.get(this.door.feeds, streamId).pipe(Scope.provide(scope))
        let feed = yield* get
        if (feed?.stale === true) {
          yield* RcMap.invalidate(this.door.feeds, streamId)
          feed = yield* get
        }
        if (feed === null) {
          yield* Scope.close(scope, Exit.void)
          yield* RcMap.invalidate(this.door.feeds, streamId)
          return yield* refuse(404)
        }
        this.held = { feed, scope }
      }
      const { feed } = this.held
      yield* Deferred.await(feed.described).pipe(
        Effect.timeoutOrElse({ duration: describeMs, orElse: () => refuse(503) }),
      )
      return feed
    })

  private readonly describe = (head: RequestHead): Effect.Effect<Answer, Refusal> =>
    Effect.gen({ self: this }, function*() {
      const target = targetOf(head.url)
      if (target === null) return yield* refuse(404)
      if (this.session !== null) return yield* refuse(455)
      yield* this.enter(head, target)
      const feed = yield* this.feed(target.streamId)
      const { parameters, version } = feed
      if (parameters === null) return yield* refuse(503)
      return {
        status: 200,
        headers: [["Content-Base", target.base], ["Content-Type", "application/sdp"]],
        body: describe(parameters, plainAddress(this.socket.localAddress ?? "127.0.0.1"), version),
      }
    })

  private readonly setUp = (head: RequestHead): Effect.Effect<Answer, Refusal> =>
    Effect.gen({ self: this }, function*() {
      const target = targetOf(head.url)
      if (target === null) return yield* refuse(404)
      yield* this.enter(head, target)
      if (this.session !== null && this.session.reader.feed.streamId !== target.streamId) return yield* refuse(459)
      if (this.session?.reader.playing === true) return yield* refuse(455)
      if (this.session === null && header(head, "session") !== null) return yield* refuse(454)
      const feed = yield* this.feed(target.streamId)
      if (target.track === null) return yield* refuse(460)
      if (feed.ssrc(target.track) === null) return yield* refuse(404)
      const chosen = this.choose(target.track, wishesOf(header(head, "transport") ?? ""))
      if (chosen === null) return yield* refuse(461)
      this.session ??= {
        id: randomBytes(8).toString("hex"),
        sinceMs: this.clock.currentTimeMillisUnsafe(),
        reader: new Reader(feed, this.socket, this.door.udp, () => this.socket.end()),
      }
      this.session.reader.destinations.set(target.track, chosen)
      return {
        status: 200,
        headers: [this.sessionHeader(this.session), [
          "Transport",
          transportText(chosen, feed.ssrc(target.track)!, this.door.udp?.ports ?? [0, 0]),
        ]],
      }
    })

  private sessionHeader({ id }: Session): readonly [string, string] {
    return ["Session", `${id};timeout=${sessionTimeoutMs / 1000}`]
  }

  /** The first wish that can be granted. */
  private choose(track: TrackName, wishes: ReadonlyArray<Wish>): Destination | null {
    const taken = [...(this.session?.reader.destinations ?? [])].flatMap(([name, one]) =>
      name !== track && one.kind === "tcp" ? [one.channel - 1, one.channel, one.channel + 1] : []
    )
    for (const wish of wishes) {
      if (wish.kind === "tcp") {
        const channel = wish.channel ?? channelOf[track]
        if (!taken.includes(channel)) return { kind: "tcp", channel }
      } else if (this.door.udp !== null) {
        const address = this.socket.remoteAddress ?? ""
        this.door.listen(address, wish.rtpPort, this)
        this.door.listen(address, wish.rtcpPort, this)
        return { ...wish, address }
      }
    }
    return null
  }

  private named(head: RequestHead): Session | null {
    const id = header(head, "session")?.split(";")[0]?.trim()
    return this.session !== null && id === this.session.id ? this.session : null
  }

  private keepAlive(head: RequestHead): Effect.Effect<Answer, Refusal> {
    if (header(head, "session") === null) return Effect.succeed({ status: 200 })
    const session = this.named(head)
    return session === null ? refuse(454) : Effect.succeed({ status: 200, headers: [this.sessionHeader(session)] })
  }

  private inSession(head: RequestHead): Effect.Effect<Answer, Refusal> {
    const session = this.named(head)
    if (session === null) return refuse(454)
    const { reader } = session
    const headers = [this.sessionHeader(session)]
    if (head.method === "PAUSE") {
      reader.pause()
      return Effect.succeed({ status: 200, headers })
    }
    if (head.method === "TEARDOWN") {
      this.leave()
      return Effect.succeed({ status: 200, headers, after: () => this.socket.end() })
    }
    const info = this.rtpInfo(head.url, reader)
    return Effect.succeed({
      status: 200,
      headers: [...headers, ["Range", "npt=now-"], ...(info === "" ? [] : [["RTP-Info", info] as const])],
      after: () => reader.play(),
    })
  }

  /** Of the packets that follow at once; a track of which none are known yet is left out (section 12.33). */
  private rtpInfo(url: string, { destinations, feed, playing }: Reader): string {
    const base = targetOf(url)?.base ?? ""
    return trackNames.flatMap((name, index) => {
      const first = playing || !destinations.has(name) ? null : feed.first(name)
      return first === null ? [] : [`url=${base}trackID=${index};seq=${first.sequence};rtptime=${first.timestamp}`]
    }).join(",")
  }

  leave(): void {
    this.session?.reader.pause()
    this.session = null
  }
}

/** Serves a player until its connection closes. */
export const serve = (
  door: Door,
  socket: Socket,
  opened: (connection: Connection) => void,
  closed: (connection: Connection) => void,
): Effect.Effect<void> =>
  Effect.scoped(Effect.gen(function*() {
    const ended = yield* Deferred.make<void>()
    const requests = yield* Queue.bounded<RequestHead>(maxRequests)
    socket.on("error", () => socket.destroy())
    socket.on("close", () => Deferred.doneUnsafe(ended, Exit.void))
    const connection = new Connection(door, socket, yield* Clock.Clock, yield* Effect.scope, (head) => {
      if (!Queue.offerUnsafe(requests, head)) socket.destroy()
    })
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        connection.leave()
        closed(connection)
        socket.destroy()
      })
    )
    opened(connection)
    socket.on("data", (bytes: Buffer) => connection.read(bytes))
    if (socket.destroyed) return
    yield* Effect.raceFirst(
      Effect.forever(Effect.flatMap(Queue.take(requests), connection.respond)),
      Deferred.await(ended),
    )
  }))
