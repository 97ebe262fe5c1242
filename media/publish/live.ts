/** Publishers by their addresses, in memory: see `media/publish.ts`. */
import { Effect, Layer } from "effect"
import { type Publication, type PublishedFormat, type Publisher, Publishers, publishWaitMs } from "../publish.ts"
import { opusTicks, WholePacketDepacketiser } from "../rtp/audio.ts"
import { Reorder } from "../rtp/reorder.ts"
import type { SenderReport } from "../rtp/rtcp.ts"
import { type Choice, makeTracks } from "../rtsp/tracks.ts"
import type { SourceListener } from "../source.ts"

const format = (encoding: string, { channels, clockHz, payloadType }: PublishedFormat) => ({
  payloadType,
  encoding,
  clockRate: clockHz,
  channels,
  parameters: new Map<string, string>(),
})

const choiceOf = ({ audio, video }: Publisher): Choice => {
  const pictures = { kind: "video", control: null, format: format("H264", video), codec: "h264" } as const
  return {
    video: pictures,
    audio: audio === null ? null : {
      kind: "audio",
      control: null,
      format: format("OPUS", audio),
      // RFC 7587, section 7: the clock is 48 kHz and two channels are announced whatever is inside.
      parameters: {
        codec: "opus",
        codecs: "opus",
        sampleRate: audio.clockHz,
        channels: audio.channels,
        config: new Uint8Array(0),
      },
      depacketiser: (sink) => new WholePacketDepacketiser(opusTicks, sink),
    },
    order: [pictures],
  }
}

interface Taker {
  readonly packet: (track: "video" | "audio", packet: Buffer, arrivalMs: number) => void
  readonly report: (track: "video" | "audio", report: SenderReport, arrivalMs: number) => void
  readonly onGone: () => void
}

const makeTaker = (publisher: Publisher, listener: SourceListener, onGone: () => void): Taker => {
  const tracks = makeTracks(choiceOf(publisher), publisher.audio !== null, listener)
  const orders = {
    video: new Reorder((packet, ms) => tracks.video.push(packet, 0, packet.length, ms), publishWaitMs),
    audio: new Reorder((packet, ms) => tracks.audio?.push(packet, 0, packet.length, ms), publishWaitMs),
  }
  return {
    packet: (track, packet, arrivalMs) => {
      if (packet.length >= 12) orders[track].push(packet, arrivalMs)
    },
    report: (track, report, arrivalMs) => tracks[track]?.onSenderReport(report, arrivalMs),
    onGone,
  }
}

/** What is known of one address. */
interface Place {
  current: Publisher | null
  taker: Taker | null
  readonly waiting: Set<() => void>
}

export const makePublishers = (): Publishers["Service"] => {
  const places = new Map<string, Place>()
  const placeOf = (address: string): Place => {
    const known = places.get(address)
    if (known !== undefined) return known
    const made: Place = { current: null, taker: null, waiting: new Set() }
    places.set(address, made)
    return made
  }
  /** Addresses of which nothing is known are not kept. */
  const tidy = (address: string, place: Place) => {
    if (place.current === null && place.waiting.size === 0) places.delete(address)
  }
  const leave = (place: Place) => {
    const { taker } = place
    place.current = null
    place.taker = null
    taker?.onGone()
  }
  const end = (address: string, reason: "replaced" | "ended") => {
    const place = places.get(address)
    const current = place?.current ?? null
    if (place === undefined || current === null) return
    leave(place)
    tidy(address, place)
    current.onEnd(reason)
  }

  const publish = (address: string, publisher: Publisher): Publication => {
    end(address, "replaced")
    const place = placeOf(address)
    place.current = publisher
    const waiting = [...place.waiting]
    place.waiting.clear()
    for (const here of waiting) here()
    const own = () => place.current === publisher
    return {
      rtp: (track, packet, arrivalMs) => {
        if (own()) place.taker?.packet(track, packet, arrivalMs)
      },
      senderReport: (track, report, arrivalMs) => {
        if (own()) place.taker?.report(track, report, arrivalMs)
      },
      withdraw: () => {
        if (!own()) return
        leave(place)
        tidy(address, place)
      },
    }
  }

  return {
    publish,
    isHere: (address) => (places.get(address)?.current ?? null) !== null,
    whenHere: (address, here) => {
      const place = placeOf(address)
      if (place.current !== null) {
        here()
        return () => {}
      }
      place.waiting.add(here)
      return () => {
        place.waiting.delete(here)
        tidy(address, place)
      }
    },
    take: (address, listener, onGone) => {
      const place = places.get(address)
      if (place === undefined || place.current === null) return null
      const taker = makeTaker(place.current, listener, onGone)
      place.taker = taker
      place.current.requestKeyPicture()
      return () => {
        if (place.taker === taker) place.taker = null
      }
    },
    requestKeyPicture: (address) => places.get(address)?.current?.requestKeyPicture(),
    end: (address) => end(address, "ended"),
  }
}

export const layer = Layer.effect(Publishers, Effect.sync(() => Publishers.of(makePublishers())))
