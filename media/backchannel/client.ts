/**
 * The RTSP side of a camera's backchannel: `Require: www.onvif.org/ver20/backchannel` on DESCRIBE, SETUP and PLAY, the `sendonly` audio
 * part set up interleaved, RTP written there (ONVIF Streaming Specification, section 5.3).
 *
 * Invariants
 * 1. It has a connection of its own: the camera's pictures come by another, which it cannot hold up.
 * 2. Nothing but the loudspeaker is set up; what the camera sends here besides is not looked at.
 * 3. Once the scope closes, TEARDOWN is sent and waited for at most {@link teardownMs}.
 */
import type { TalkCodec } from "#schema/camera-talk.ts"
import { Deferred, Effect, Random } from "effect"
import type { Backchannel } from "../backchannel.ts"
import { Malformed } from "../codec/malformed.ts"
import { senderReportPacket } from "../rtp/rtcp.ts"
import { connect, type Connection } from "../rtsp/connection.ts"
import { header, parseSession, parseTransport } from "../rtsp/message.ts"
import { makeRequester, type Requester } from "../rtsp/requester.ts"
import { parseSdp, type Sdp, type SdpFormat } from "../rtsp/sdp.ts"
import { baseUrl, controlUrl, parseRtspUrl, type RtspUrl } from "../rtsp/url.ts"
import { SourceError, type SourceOptions } from "../source.ts"
import { frameMs, staticType, Voice } from "./voice.ts"

const requireBackchannel = ["Require", "www.onvif.org/ver20/backchannel"] as const
const teardownMs = 500
/** Session time-out where the camera tells none (RFC 2326, section 12.37), seconds, and bounds of the interval between keep-alives. */
const defaultTimeoutSeconds = 60
const keepAliveSeconds = { least: 1, most: 30 }
const reportEveryMs = 5_000

const codecs: Readonly<Record<string, TalkCodec>> = { PCMU: "pcmu", PCMA: "pcma" }

const readUrl = (text: string): Effect.Effect<RtspUrl, SourceError> =>
  Effect.try({
    try: () => parseRtspUrl(text),
    catch: (error) =>
      new SourceError({
        reason: "unsupported",
        host: "",
        path: "",
        packet: 0,
        byte: 0,
        detail: error instanceof Malformed ? error.message : "the address cannot be read",
      }),
  })

interface Loudspeaker {
  readonly control: string
  readonly format: SdpFormat
  readonly codec: TalkCodec
}

/** The reason as text where there is none for us. */
export const findLoudspeaker = (sdp: Sdp): Loudspeaker | string => {
  const media = sdp.media.filter(({ direction, kind }) => kind === "audio" && direction === "sendonly")
  for (const { control, formats } of media) {
    for (const format of formats) {
      const codec = codecs[format.encoding]
      if (codec !== undefined && format.clockRate === 8000 && format.channels === 1) {
        return { control: control ?? "", format, codec }
      }
    }
  }
  const offered = media.flatMap(({ formats }) => formats.map(({ encoding }) => encoding)).slice(0, 8)
  return media.length === 0 ? "it offers no backchannel" : `its backchannel takes no G.711, but ${offered.join(", ")}`
}

const describe = Effect.fnUntraced(function*(connection: Connection, requester: Requester, url: RtspUrl) {
  const { body, head } = yield* requester.request("DESCRIBE", url.text, [
    ["Accept", "application/sdp"],
    requireBackchannel,
  ])
  if (head.status === 551) return yield* connection.error("unsupported", "it offers no backchannel")
  if (head.status === 404) return yield* connection.error("notFound", "DESCRIBE was answered 404")
  if (head.status >= 300) return yield* connection.error("refused", `DESCRIBE was answered ${head.status}`)
  const sdp = parseSdp(body.toString("utf8"))
  const found = findLoudspeaker(sdp)
  if (typeof found === "string") return yield* connection.error("unsupported", found)
  const base = baseUrl(url, header(head, "content-base") ?? header(head, "content-location"))
  return { ...found, control: controlUrl(base, found.control), aggregate: controlUrl(base, sdp.control ?? "*") }
})

/** Where RTP goes, and for how long the camera waits for a sign of life. */
const setUp = Effect.fnUntraced(function*(requester: Requester, control: string) {
  const { head } = yield* requester.demand("SETUP", control, [
    ["Transport", "RTP/AVP/TCP;unicast;interleaved=0-1"],
    requireBackchannel,
  ])
  const session = parseSession(header(head, "session") ?? "")
  requester.session ??= session.id
  const [channel] = parseTransport(header(head, "transport") ?? "").interleaved ?? [0]
  return { channel, timeoutSeconds: session.timeoutSeconds ?? defaultTimeoutSeconds }
})

const keepAlive = Effect.fnUntraced(
  function*(connection: Connection, requester: Requester, url: string, timeoutSeconds: number) {
    const seconds = Math.min(keepAliveSeconds.most, Math.max(keepAliveSeconds.least, timeoutSeconds / 2))
    let method = "GET_PARAMETER"
    for (;;) {
      yield* Effect.sleep(seconds * 1000)
      const { head: { status } } = yield* requester.request(method, url)
      if (status === 454) return yield* connection.error("closed", "the camera forgot the session")
      if (status >= 400) method = "OPTIONS"
    }
  },
)

/** Best effort, and quick. */
const teardown = (connection: Connection, requester: Requester, url: string) =>
  Effect.suspend(() =>
    connection.isOpen && requester.session !== null ?
      Effect.interruptible(requester.request("TEARDOWN", url)).pipe(Effect.timeoutOption(teardownMs), Effect.ignore) :
      Effect.void
  )

export const openBackchannel = Effect.fnUntraced(function*(options: SourceOptions) {
  const url = yield* readUrl(options.url)
  const connection = yield* connect(url, options.requestTimeoutMs)
  const requester = yield* makeRequester(connection, options)
  connection.handlers = {
    onMessage: (message) => requester.onMessage(message),
    onPacket: () => true,
  }
  const found = yield* describe(connection, requester, url)
  yield* Effect.addFinalizer(() => teardown(connection, requester, found.aggregate))
  const { channel, timeoutSeconds } = yield* setUp(requester, found.control)
  yield* requester.demand("PLAY", found.aggregate, [["Range", "npt=0.000-"], requireBackchannel])

  const { clock } = connection
  const random = (below: number) => Random.nextIntBetween(0, below)
  const ssrc = yield* random(0x7fff_ffff)
  const voice = new Voice({
    codec: found.codec,
    inputType: staticType(found.codec),
    outputType: found.format.payloadType,
    ssrc,
    sequence: yield* random(0x1_0000),
    timestamp: yield* random(0x7fff_ffff),
  })
  let sentPackets = 0
  let heardMs: number | null = null
  const send = Effect.sync(() => {
    for (let frame = voice.take(clock.currentTimeMillisUnsafe()); frame !== null;) {
      connection.sendPacket(channel, frame)
      sentPackets++
      frame = voice.take(clock.currentTimeMillisUnsafe())
    }
  })
  const report = Effect.sync(() => {
    if (sentPackets === 0) return
    const wallMs = clock.currentTimeMillisUnsafe()
    const payloadBytes = sentPackets * 160
    connection.sendPacket(
      channel + 1,
      senderReportPacket({ ssrc, wallMs, rtpTimestamp: voice.nextTimestamp, packets: sentPackets, payloadBytes }),
    )
  })
  yield* Effect.forkScoped(Effect.forever(Effect.gen(function*() {
    yield* Effect.sleep(frameMs / 2)
    // What came while this process stood still is heard first: timers are called before sockets are read.
    if (voice.isLate(clock.currentTimeMillisUnsafe())) yield* Effect.sleep(frameMs / 2)
    yield* send
  })))
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(reportEveryMs), report)))
  yield* Effect.forkScoped(
    keepAlive(connection, requester, found.aggregate, timeoutSeconds).pipe(Effect.catch(({ detail, reason }) =>
      Effect.sync(() => connection.end(reason, detail))
    )),
  )
  return {
    codec: found.codec,
    hear: (packet, from, to) => {
      const nowMs = clock.currentTimeMillisUnsafe()
      if (voice.hear(packet, from, to, nowMs)) heardMs = nowMs
    },
    statistics: () => ({ sentPackets, sentBytes: sentPackets * 160, droppedPackets: voice.dropped }),
    heardMs: () => heardMs,
    ended: Deferred.await(connection.ended),
  } satisfies Backchannel
})
