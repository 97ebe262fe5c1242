/**
 * One RTSP session from the first OPTIONS to TEARDOWN (RFC 2326, section 10; ONVIF Streaming Specification, section 5).
 *
 * Invariants
 * 1. RTP counts from the moment PLAY is sent, not from its answer: cameras do not wait. What comes earlier is ignored.
 * 2. A track's channels are what the camera answered, whatever was asked for.
 * 3. The session is kept alive at half of its time-out by a method that the camera offers.
 * 4. Once the scope closes, TEARDOWN is sent and waited for at most `teardownMs`.
 */
import { Deferred, Effect, Random, type Scope } from "effect"
import type { TrackReceiver } from "../rtp/receiver.ts"
import { type Goodbye, parseRtcp, receiverReportPacket, type SenderReport } from "../rtp/rtcp.ts"
import type { SourceError, SourceListener, SourceOptions } from "../source.ts"
import { connect, type Connection } from "./connection.ts"
import { drainEvery } from "./drain.ts"
import { header, parseSession, parseTransport } from "./message.ts"
import { makeRequester, type Requester, type Response } from "./requester.ts"
import { parseSdp } from "./sdp.ts"
import { type Choice, chooseTracks, type ChosenMedia, makeTracks, type Tracks } from "./tracks.ts"
import { openUdpPair, type UdpPair } from "./udp.ts"
import { baseUrl, controlUrl, type RtspUrl } from "./url.ts"

/** Session time-out where the camera tells none (RFC 2326, section 12.37), seconds. */
const defaultTimeoutSeconds = 60
/** Bounds of the keep-alive interval, seconds: a camera that says 1 s is not asked five times a second. */
const keepAliveSeconds = { least: 1, most: 30 }
/** Between receiver reports (RFC 3550, section 6.2), milliseconds. */
const reportEveryMs = 5000
const teardownMs = 500
/** Units without parameter sets, and malformed packets in a row, after which the stream counts as unusable. */
const maxUnitsWithoutParameters = 250
const maxMalformedInARow = 500

/** How one track comes in: where its packets go and how reports get back. */
interface Route {
  readonly kind: "video" | "audio"
  readonly sendRtcp: (packet: Buffer) => void
}

type Input = (bytes: Buffer, from: number, to: number, arrivalMs: number) => void

class Session {
  readonly connection: Connection
  readonly requester: Requester
  readonly options: SourceOptions
  /** Methods in OPTIONS' `Public`, upper case; empty where it told none. */
  methods: ReadonlySet<string> = new Set()
  timeoutSeconds = defaultTimeoutSeconds
  tracks: Tracks | null = null
  readonly routes: Array<Route> = []
  /** By interleaved channel. */
  readonly inputs: Array<Input | null> = Array.from({ length: 256 }, () => null)
  readonly ssrc: number

  constructor(connection: Connection, requester: Requester, options: SourceOptions, ssrc: number) {
    this.connection = connection
    this.requester = requester
    this.options = options
    this.ssrc = ssrc
  }

  receiver(kind: "video" | "audio"): TrackReceiver | null {
    return this.tracks === null ? null : this.tracks[kind]
  }

  rtp(kind: "video" | "audio"): Input {
    let receiver: TrackReceiver | null = null
    return (bytes, from, to, arrivalMs) => {
      receiver ??= this.receiver(kind)
      receiver?.push(bytes, from, to, arrivalMs)
    }
  }

  rtcp(kind: "video" | "audio"): Input {
    return (bytes, from, to, arrivalMs) => {
      const receiver = this.receiver(kind)
      if (receiver === null) return
      for (const report of parseRtcp(bytes, from, to)) this.onRtcp(kind, receiver, report, arrivalMs)
    }
  }

  private onRtcp(
    kind: "video" | "audio",
    receiver: TrackReceiver,
    report: SenderReport | Goodbye,
    arrivalMs: number,
  ): void {
    if (report.kind === "senderReport") receiver.onSenderReport(report, arrivalMs)
    else if (kind === "video" && report.ssrcs.some((ssrc) => receiver.isFrom(ssrc))) {
      this.connection.end("closed", "the camera said goodbye (RTCP BYE)")
    }
  }
}

const readMethods = (response: Response): ReadonlySet<string> =>
  new Set(
    (header(response.head, "public") ?? header(response.head, "allow") ?? "").toUpperCase().split(/[\s,]+/)
      .filter((method) => method !== ""),
  )

/** OPTIONS, DESCRIBE. */
const describe = Effect.fnUntraced(function*(session: Session, url: RtspUrl) {
  const { connection, requester } = session
  const options = yield* requester.request("OPTIONS", url.text)
  if (options.head.status < 300) session.methods = readMethods(options)
  const response = yield* requester.demand("DESCRIBE", url.text, [["Accept", "application/sdp"]])
  const sdp = parseSdp(response.body.toString("utf8"))
  if (sdp.media.length === 0) {
    return yield* connection.error(
      "protocol",
      `DESCRIBE was answered with ${response.body.length} bytes that are no SDP`,
    )
  }
  const choice = chooseTracks(sdp)
  if (typeof choice === "string") return yield* connection.error("unsupported", choice)
  const base = baseUrl(url, header(response.head, "content-base") ?? header(response.head, "content-location"))
  return { choice, base, aggregate: controlUrl(base, sdp.control ?? "*") }
})

const afterSetup = (session: Session, response: Response) => {
  const told = header(response.head, "session")
  if (told === null) return
  const { id, timeoutSeconds } = parseSession(told)
  session.requester.session ??= id
  if (timeoutSeconds !== null) session.timeoutSeconds = timeoutSeconds
}

const setupTcp = Effect.fnUntraced(function*(session: Session, media: ChosenMedia, url: string) {
  const { connection, requester } = session
  const channel = session.routes.length * 2
  const response = yield* requester.demand("SETUP", url, [
    ["Transport", `RTP/AVP/TCP;unicast;interleaved=${channel}-${channel + 1}`],
  ])
  afterSetup(session, response)
  const told = parseTransport(header(response.head, "transport") ?? "").interleaved
  // A camera that names the channels of another track again sends on those that it was asked for.
  const [rtp, rtcp] = told === null || session.inputs[told[0]] !== null ? [channel, channel + 1] : told
  session.inputs[rtp] = session.rtp(media.kind)
  session.inputs[rtcp] = session.rtcp(media.kind)
  session.routes.push({ kind: media.kind, sendRtcp: (packet) => connection.sendPacket(rtcp, packet) })
})

const setupUdp = Effect.fnUntraced(function*(session: Session, media: ChosenMedia, url: string) {
  const rtp = session.rtp(media.kind)
  const rtcp = session.rtcp(media.kind)
  const pair: UdpPair = yield* openUdpPair(session.connection, {
    onRtp: (packet, arrivalMs) => rtp(packet, 0, packet.length, arrivalMs),
    onRtcp: (packet, arrivalMs) => rtcp(packet, 0, packet.length, arrivalMs),
  })
  const response = yield* session.requester.demand("SETUP", url, [
    ["Transport", `RTP/AVP;unicast;client_port=${pair.port}-${pair.port + 1}`],
  ])
  afterSetup(session, response)
  pair.connect(parseTransport(header(response.head, "transport") ?? ""))
  session.routes.push({ kind: media.kind, sendRtcp: pair.sendRtcp })
})

/** A camera that refuses its audio is recorded without; returns whether there is some. */
const setUp = Effect.fnUntraced(function*(session: Session, choice: Choice, base: string) {
  const setup = session.options.transport === "udp" ? setupUdp : setupTcp
  let withAudio = false
  for (const media of choice.order) {
    const done = setup(session, media, controlUrl(base, media.control ?? ""))
    if (media.kind === "video") yield* done
    else {
      withAudio = yield* done.pipe(
        Effect.as(true),
        Effect.catchIf((error) => error.reason === "refused" || error.reason === "notFound", () =>
          Effect.succeed(false)),
      )
    }
  }
  return withAudio
})

/** Best effort, and quick: the camera's slots are few, but a dead one must not hold us up. */
const teardown = (session: Session, url: string) =>
  Effect.suspend(() =>
    session.connection.isOpen && session.requester.session !== null ?
      Effect.interruptible(session.requester.request("TEARDOWN", url)).pipe(
        Effect.timeoutOption(teardownMs),
        Effect.ignore,
      ) :
      Effect.void
  )

const keepAliveMethods = ["GET_PARAMETER", "SET_PARAMETER"]

/** Ends only with an error: the session is gone, or the camera answers nothing and sends nothing any more. */
const keepAlive = Effect.fnUntraced(function*(session: Session, url: string): Effect.fn.Return<never, SourceError> {
  const { connection, requester } = session
  let methods = [...keepAliveMethods.filter((method) => session.methods.has(method)), "OPTIONS"]
  const seconds = Math.min(keepAliveSeconds.most, Math.max(keepAliveSeconds.least, session.timeoutSeconds / 2))
  for (;;) {
    yield* Effect.sleep(seconds * 1000)
    const { packets } = connection
    const response = yield* requester.request(methods[0]!, url).pipe(
      // Some cameras answer no request while they stream; as long as media comes, that is their affair.
      Effect.catchIf((error) => error.reason === "timeout" && connection.packets > packets, () => Effect.succeed(null)),
    )
    if (response?.head.status === 454) return yield* connection.error("closed", "the camera forgot the session")
    if (response !== null && response.head.status >= 400 && methods.length > 1) methods = methods.slice(1)
  }
})

const report = Effect.fnUntraced(function*(session: Session, tracks: Tracks): Effect.fn.Return<never, SourceError> {
  const { connection } = session
  for (;;) {
    yield* Effect.sleep(reportEveryMs)
    const now = connection.clock.currentTimeMillisUnsafe()
    for (const route of session.routes) {
      const reception = session.receiver(route.kind)?.reception(session.ssrc, now) ?? null
      if (reception !== null) route.sendRtcp(receiverReportPacket(reception))
    }
    if (tracks.unitsWithoutParameters() > maxUnitsWithoutParameters) {
      return yield* connection.error("protocol", "neither the SDP nor the stream has parameter sets")
    }
    if (tracks.video.malformedInARow > maxMalformedInARow) {
      return yield* connection.error("protocol", `${tracks.video.malformedInARow} packets in a row could not be read`)
    }
  }
})

/** Plays the stream until it ends; everything it opened is closed with the scope. */
export const playRtsp = Effect.fnUntraced(
  function*(
    url: RtspUrl,
    options: SourceOptions,
    listener: SourceListener,
  ): Effect.fn.Return<never, SourceError, Scope.Scope> {
    const connection = yield* connect(url, options.requestTimeoutMs)
    const requester = yield* makeRequester(connection, options)
    const session = new Session(connection, requester, options, yield* Random.nextIntBetween(1, 0x1_0000_0000))
    connection.handlers = {
      onMessage: (message) => requester.onMessage(message),
      onPacket: (channel, bytes, from, to, arrivalMs) => {
        const input = session.inputs[channel] ?? null
        input?.(bytes, from, to, arrivalMs)
        return input !== null
      },
    }
    const { aggregate, base, choice } = yield* describe(session, url)
    yield* Effect.addFinalizer(() => teardown(session, aggregate))
    const withAudio = yield* setUp(session, choice, base)
    session.tracks = makeTracks(choice, withAudio, listener)
    yield* requester.demand("PLAY", aggregate, [["Range", "npt=0.000-"]])
    if (options.drainEveryMs > 0) {
      connection.drainBy(yield* drainEvery(options.drainEveryMs))
      yield* Effect.addFinalizer(() => Effect.sync(() => connection.drainBy(null)))
    }
    return yield* Effect.raceFirst(
      Effect.raceFirst(keepAlive(session, aggregate), report(session, session.tracks)),
      Deferred.await(connection.ended),
    )
  },
)
