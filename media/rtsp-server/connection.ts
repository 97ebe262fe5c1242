/**
 * One player's connection and its session (RFC 2326): requests are answered in order, the session ends with the connection.
 *
 * Invariants
 * 1. Answers that wait are {@link maxAnswerBytes} at most (behind what a reader is sent); more ends the connection.
 * 2. Who is not let in within {@link greetingMs} is disconnected; after that, whoever says nothing for {@link sessionTimeoutMs} and is
 *    not sent anything by this very connection. A reader by UDP is alive by its requests and its reports.
 */
import type { TalkCodec } from "#schema/camera-talk.ts"
import type { StreamId } from "#schema/common.ts"
import { type Clock, Effect, type Scope } from "effect"
import { randomBytes } from "node:crypto"
import type { Socket } from "node:net"
import { Malformed } from "../codec/malformed.ts"
import type { RtspGrant, RtspSession } from "../rtsp-server.ts"
import { header, type RequestHead } from "../rtsp/message.ts"
import { type Answer, formatAnswer, methods, type Refusal, refuse } from "./answer.ts"
import type { TrackName } from "./description.ts"
import type { Door } from "./door.ts"
import { Entrance } from "./entrance.ts"
import { channelOf, type Destination, type Player, type Programme } from "./lanes.ts"
import { openRelay, Relay } from "./relay.ts"
import { RequestReader } from "./request-reader.ts"
import { Stage } from "./stage.ts"
import { backchannelTag, talkChannel, Talking, unknownOf, wantsToTalk } from "./talking.ts"
import {
  grantable,
  keyOf,
  plainAddress,
  takenChannels,
  talkTransportText,
  type Target,
  targetOf,
  transportText,
  type Wish,
  wishesOf,
} from "./transport.ts"

const maxAnswerBytes = 64 * 1024
/** The largest group of pictures, and what a reader may be behind. */
const maxStreamBytes = 24 * 1024 * 1024
const greetingMs = 10_000
export const sessionTimeoutMs = 60_000
/** Players renew their sessions a little late. */
const graceMs = 5_000

/** What a player begins with. */
const beginning: ReadonlySet<string> = new Set(["DESCRIBE", "SETUP"])

interface Session {
  readonly id: string
  readonly sinceMs: number
  readonly player: Player
  readonly programme: Programme
}

export class Connection {
  private readonly door: Door
  readonly socket: Socket
  private readonly clock: Clock.Clock
  readonly scope: Scope.Scope
  private readonly requests: RequestReader
  private readonly entrance: Entrance
  private readonly talking: Talking
  private readonly stage: Stage
  private readonly remote: string
  private session: Session | null = null
  /** Another node serves what is asked for. */
  private relay: Relay | null = null
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
    const address = plainAddress(socket.remoteAddress ?? "")
    this.remote = `${address}:${socket.remotePort ?? 0}`
    this.entrance = new Entrance({
      account: door.account,
      gate: door.gate,
      lockout: door.lockout,
      address,
      userAgent: () => this.userAgent ?? "",
      nowMs: () => clock.currentTimeMillisUnsafe(),
      close: () => this.close(),
    })
    this.talking = new Talking({
      gate: door.gate,
      scope,
      from: () => ({ address, userAgent: this.userAgent ?? "" }),
      close: () => this.close(),
    })
    this.stage = new Stage(door.shelf, scope)
    this.requests = new RequestReader({
      onRequest,
      onPacket: (channel, bytes, from, to) => {
        if (this.relay !== null) this.relay.packet(channel, bytes, from, to)
        else if (this.talking.hear(channel, bytes, from, to)) this.lastMs = clock.currentTimeMillisUnsafe()
        // Reports come on the odd channels.
        else if (channel % 2 === 1) this.session?.player.received(bytes, from, to)
      },
    })
  }

  get revocable(): RtspGrant | null {
    return this.entrance.revocable
  }

  /** Of the stream that is read live; null: none is. */
  get liveStreamId(): StreamId | null {
    return this.session === null || this.session.programme.recordingToken !== null ?
      null :
      this.session.programme.streamId
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
    if (this.entrance.grant === null) {
      if (nowMs - this.openedMs > greetingMs) this.close()
      return
    }
    const player = this.session?.player
    const fed = this.relay !== null ||
      (player?.playing === true && [...player.destinations.values()].some(({ kind }) => kind === "tcp"))
    if (!fed && nowMs - this.lastMs > sessionTimeoutMs + graceMs) this.close()
  }

  /** A datagram from the reader's ports. */
  datagram(bytes: Buffer, rtcp: boolean): void {
    this.lastMs = this.clock.currentTimeMillisUnsafe()
    if (rtcp) this.session?.player.received(bytes, 0, bytes.length)
  }

  told(): RtspSession | null {
    const holder = this.entrance.grant?.holder
    if (this.session === null || holder === undefined) return null
    const { id, player, programme, sinceMs } = this.session
    const { jitterMs, lostPackets, sentBytes, sentPackets, skippedPictures } = player
    return {
      id,
      streamId: programme.streamId,
      recordingToken: programme.recordingToken,
      remote: this.remote,
      userAgent: this.userAgent,
      holder,
      transport: player.byUdp ? "udp" : "tcp",
      state: player.playing ? "playing" : "ready",
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
        yield* this.lead(head).pipe(
          Effect.flatMap((relay) => relay === null ? this.answer(head) : Effect.succeed(relay.forward(head))),
          Effect.catchTag("Refusal", (refusal) => Effect.succeed<Answer>(refusal)),
        )
      if (answer === null || this.socket.destroyed) return
      this.write(cseq ?? "0", answer)
      answer.after?.()
    })

  private write(cseq: string, answer: Answer): void {
    this.socket.write(formatAnswer(cseq, answer))
    const allowed = maxAnswerBytes + (this.session === null ? 0 : maxStreamBytes)
    if (this.socket.writableLength > allowed) this.close()
  }

  /** Who passes the request on, where another node serves what it is for. */
  private readonly lead = (head: RequestHead): Effect.Effect<Relay | null, Refusal> =>
    Effect.gen({ self: this }, function*() {
      const target = this.relay === null && this.session === null && beginning.has(head.method) ?
        targetOf(head.url) :
        null
      if (target === null) return this.relay
      yield* this.admit(head, target)
      const { account } = this.entrance
      if (this.stage.holds(target)) return null
      const found = yield* openRelay(this.door.gate, { head, target }, account, this)
      if (found instanceof Relay) this.relay = found
      else this.stage.others = found === null ? null : { key: keyOf(target), footage: found }
      return this.relay
    })

  private answer(head: RequestHead): Effect.Effect<Answer, Refusal> {
    this.userAgent ??= header(head, "user-agent")?.slice(0, 200) ?? null
    const unknown = unknownOf(head)
    if (unknown.length > 0) return refuse(551, [["Unsupported", unknown.join(", ")]])
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

  private readonly admit = (head: RequestHead, target: Target): Effect.Effect<void, Refusal> =>
    Effect.flatMap(
      this.entrance.enter(head, target),
      (first) => first && !this.door.admitted(this) ? refuse(453) : Effect.void,
    )

  /** Lets the caller in and answers what the address names, or refuses. */
  private readonly visit = (
    head: RequestHead,
  ): Effect.Effect<{ readonly target: Target; readonly programme: Programme }, Refusal> =>
    Effect.gen({ self: this }, function*() {
      const target = targetOf(head.url)
      if (target === null) return yield* refuse(404)
      yield* this.admit(head, target)
      if (this.session !== null && this.session.programme.key !== keyOf(target)) return yield* refuse(459)
      return { target, programme: yield* this.stage.show(target, this.entrance.grant) }
    })

  private readonly describe = (head: RequestHead): Effect.Effect<Answer, Refusal> =>
    Effect.gen({ self: this }, function*() {
      if (this.session !== null) return yield* refuse(455)
      const { programme, target } = yield* this.visit(head)
      const talk = yield* this.talkOf(head, target)
      const body = programme.describe(plainAddress(this.socket.localAddress ?? "127.0.0.1"), talk)
      if (body === null) return yield* refuse(503)
      return { status: 200, headers: [["Content-Base", target.base], ["Content-Type", "application/sdp"]], body }
    })

  private readonly setUp = (head: RequestHead): Effect.Effect<Answer, Refusal> =>
    Effect.gen({ self: this }, function*() {
      const { programme, target } = yield* this.visit(head)
      const { track } = target
      if (this.session?.player.playing === true) return yield* refuse(455)
      if (this.session === null && header(head, "session") !== null) return yield* refuse(454)
      if (track === null) return yield* refuse(460)
      if (track === "talk") return yield* this.setUpTalk(head, target, programme)
      const ssrc = programme.ssrc(track)
      if (ssrc === null) return yield* refuse(404)
      const chosen = this.choose(track, wishesOf(header(head, "transport") ?? ""))
      if (chosen === null) return yield* refuse(461)
      const session = this.begin(programme)
      session.player.destinations.set(track, chosen)
      return {
        status: 200,
        headers: [this.sessionHeader(session), [
          "Transport",
          transportText(chosen, ssrc, this.door.udp?.ports ?? [0, 0]),
        ]],
      }
    })

  /** Null: it does not ask to talk. */
  private talkOf(head: RequestHead, target: Target): Effect.Effect<TalkCodec | null, Refusal> {
    const { grant } = this.entrance
    if (!wantsToTalk(head) || grant === null) return Effect.succeed(null)
    return target.kind === "live" ? this.talking.hold(grant, target) : refuse(551, [["Unsupported", backchannelTag]])
  }

  private readonly setUpTalk = (
    head: RequestHead,
    target: Target,
    programme: Programme,
  ): Effect.Effect<Answer, Refusal> =>
    Effect.gen({ self: this }, function*() {
      if ((yield* this.talkOf(head, target)) === null) return yield* refuse(404)
      const wish = wishesOf(header(head, "transport") ?? "").find(({ kind }) => kind === "tcp")
      const channel = wish?.kind === "tcp" ? wish.channel ?? talkChannel : null
      if (channel === null || this.takenFor(null).includes(channel)) return yield* refuse(461)
      this.talking.channel = channel
      const session = this.begin(programme)
      return { status: 200, headers: [this.sessionHeader(session), ["Transport", talkTransportText(channel)]] }
    })

  private begin(programme: Programme): Session {
    this.session ??= {
      id: randomBytes(8).toString("hex"),
      sinceMs: this.clock.currentTimeMillisUnsafe(),
      programme,
      player: programme.player({ socket: this.socket, udp: this.door.udp }, () => this.socket.end()),
    }
    return this.session
  }

  private sessionHeader({ id }: Session): readonly [string, string] {
    return ["Session", `${id};timeout=${sessionTimeoutMs / 1000}`]
  }

  private takenFor(track: TrackName | null): ReadonlyArray<number> {
    return takenChannels(
      this.session?.player.destinations ?? new Map(),
      track === null ? null : this.talking.channel,
      track,
    )
  }

  private choose(track: TrackName, wishes: ReadonlyArray<Wish>): Destination | null {
    const chosen = grantable(wishes, this.takenFor(track), channelOf[track], this.door.udp !== null)
    if (chosen?.kind !== "udp") return chosen
    const address = this.socket.remoteAddress ?? ""
    for (const port of [chosen.rtpPort, chosen.rtcpPort]) this.door.listen(address, port, this)
    return { ...chosen, address }
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

  private readonly inSession = (head: RequestHead): Effect.Effect<Answer, Refusal> =>
    Effect.gen({ self: this }, function*() {
      const session = this.named(head)
      if (session === null) return yield* refuse(454)
      const headers = [this.sessionHeader(session)]
      if (head.method === "PLAY") {
        const answer = yield* session.player.play(head, targetOf(head.url)?.base ?? "")
        return { ...answer, headers: [...headers, ...(answer.headers ?? [])] }
      }
      yield* session.player.pause
      if (head.method === "PAUSE") return { status: 200, headers }
      this.session = null
      return { status: 200, headers, after: () => this.socket.end() }
    })

  readonly leave: Effect.Effect<void> = Effect.suspend(() => {
    const { session } = this
    this.session = null
    return session === null ? Effect.void : session.player.pause
  })
}
