/**
 * A browser that sends: which of its media are taken, and the peer that receives them.
 *
 * Invariants
 * 1. At most one picture and one sound are taken; everything else of the offer is answered with port 0.
 */
import { Result } from "effect"
import type { IncomingEvents, IncomingFormat, IncomingPeer, IncomingWish } from "../webrtc.ts"
import type { Taken } from "./answer.ts"
import { type Exchange, type Listening, outside } from "./exchange.ts"
import { type Offer, type OfferedCodec, type OfferedMedia, SdpRefused } from "./offer.ts"
import type { Peer, PeerEnd, PeerEvents } from "./peer.ts"
import { type ReceivedTrack, Reception } from "./reception.ts"

const sends = ({ direction, usable }: OfferedMedia) => usable && (direction === "sendonly" || direction === "sendrecv")

/** H.264 in fragments, as every browser offers it (RFC 7742, section 6.2). */
export const isH264 = ({ clockHz, name, parameters }: OfferedCodec): boolean =>
  name === "h264" && clockHz === 90_000 && parameters.get("packetization-mode") === "1"

const choose = (offer: Offer, wish: IncomingWish): Result.Result<ReadonlyArray<Taken | null>, SdpRefused> => {
  const taken: Array<Taken | null> = offer.media.map(() => null)
  const take = (kind: "video" | "audio", fits: ReadonlyArray<(codec: OfferedCodec) => boolean>): boolean => {
    for (const fit of fits) {
      for (const [index, media] of offer.media.entries()) {
        const codec = media.kind === kind && sends(media) ? media.codecs.find(fit) : undefined
        if (codec === undefined) continue
        taken[index] = { codec, source: null }
        return true
      }
    }
    return false
  }
  if (wish.video === "required" && !take("video", [isH264])) {
    return Result.fail(new SdpRefused({ problem: "it does not send H.264" }))
  }
  const audio = take("audio", wish.audio.map((name) => (codec) => codec.name === name))
  return wish.audioRequired && !audio ?
    Result.fail(new SdpRefused({ problem: `it sends no ${wish.audio.join(" or ")}` })) :
    Result.succeed(taken)
}

const formatOf = (taken: Taken | undefined): IncomingFormat | null =>
  taken === undefined ? null : {
    codec: taken.codec.name as IncomingFormat["codec"],
    payloadType: taken.codec.payloadType,
    clockHz: taken.codec.clockHz,
    channels: taken.codec.channels,
  }

/** What becomes of a browser's packets. */
class Incoming implements PeerEvents {
  private readonly reception: Reception
  private readonly events: IncomingEvents
  private readonly nowMs: () => number
  /** Once there is one. */
  peer: Peer | null = null

  constructor(tracks: ReadonlyArray<ReceivedTrack>, maxBitrate: number, events: IncomingEvents, own: OwnSide) {
    this.events = events
    this.nowMs = own.nowMs
    this.reception = new Reception(tracks, own.ssrc, maxBitrate, {
      onRtp: events.onRtp,
      onSenderReport: events.onSenderReport,
      onGoodbye: () => this.peer?.end("left"),
      send: (rtcp) => this.peer?.sendRtcp(rtcp),
    })
  }

  get statistics() {
    return {
      receivedBytes: this.peer?.receivedBytes ?? 0,
      receivedPackets: this.reception.packets,
      lostPackets: this.reception.lost,
    }
  }

  readonly onConnected = (): void => this.events.onConnected()
  readonly onRtp = (packet: Buffer): void => this.reception.packet(packet, this.nowMs())
  readonly onRtcp = (packet: Buffer): void => this.reception.rtcp(packet, this.nowMs())
  readonly onTick = (nowMs: number): void => this.reception.tick(nowMs)
  readonly onEnd = (reason: PeerEnd): void => this.events.onEnd(reason)
  readonly requestKeyPicture = (): void => this.reception.requestKeyPicture(this.nowMs())
}

/** Our side. `ssrc`: ours, as the receiver. */
export interface OwnSide {
  readonly nowMs: () => number
  readonly ssrc: number
}

/** Null: there are too many peers. */
export const receive = (
  exchange: Exchange,
  listening: Listening,
  offer: Offer,
  wish: IncomingWish,
  events: IncomingEvents,
  own: OwnSide,
): Result.Result<IncomingPeer | null, SdpRefused> => {
  const chosen = choose(offer, wish)
  if (Result.isFailure(chosen)) return Result.fail(chosen.failure)
  const of = (kind: OfferedMedia["kind"]) =>
    chosen.success.find((one, index) => one !== null && offer.media[index]!.kind === kind) ?? undefined
  const tracks = (["video", "audio"] as const).flatMap((name): ReadonlyArray<ReceivedTrack> => {
    const codec = of(name)?.codec
    return codec === undefined ?
      [] :
      [{ name, payloadType: codec.payloadType, clockHz: codec.clockHz, nack: codec.feedback.has("nack") }]
  })
  const incoming = new Incoming(tracks, wish.maxBitrate, events, own)
  const opened = exchange.open(listening, offer, chosen.success, incoming)
  if (opened === null) return Result.succeed(null)
  const { answer, peer } = opened
  incoming.peer = peer
  return Result.succeed({
    ...outside(peer, answer, offer),
    video: formatOf(of("video")),
    audio: formatOf(of("audio")),
    requestKeyPicture: incoming.requestKeyPicture,
    statistics: () => incoming.statistics,
  })
}
