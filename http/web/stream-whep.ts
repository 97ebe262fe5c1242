/**
 * A live stream by WebRTC, negotiated by WHEP (draft-ietf-wish-whep: an SDP offer in, the answer and the session's address out).
 *
 * Invariants
 * 1. The session at the node ends with the way, also when the page goes: the request that deletes it outlives the page.
 * 2. Sound is asked for only where somebody listens.
 */
import { Problem } from "#schema/problem.ts"
import { Option, Schema } from "effect"
import { useServers } from "./ice.ts"
import { type Fault, guarded, meter, type StartWay, type WayInput } from "./stream-way.ts"

/** Pictures wait so long for late packets before they are shown, seconds: the browser lengthens it by itself when it must. */
const playoutDelay = 0.05

/** How long the node is waited for when a session is ended there. */
const leaveMs = 3000

const decodeProblem = Schema.decodeUnknownOption(Problem)

/** Words for sound that comes another way. */
export const aacWords = "WebRTC carries no AAC: with its sound the stream is played by HLS, a little later."

/** A refusal that is an answer to the offer itself (RFC 9110: not acceptable, unsupported media type, not implemented). */
const faultOf = async (answer: Response): Promise<Fault> => {
  const problem = decodeProblem(await answer.json().catch(() => null))
  const words = Option.match(problem, {
    onNone: () => `The recorder answered the offer of WebRTC with ${answer.status}.`,
    onSome: ({ detail }) => detail,
  })
  if (answer.status === 401 || answer.status === 403 || answer.status === 404) return { kind: "refused", words }
  const never = [406, 415, 422, 501].includes(answer.status)
  return { kind: never ? "unsupported" : "lost", words }
}

/** The answer to an offer; the node waits for the browser's checks and needs none of its addresses. */
const answerTo = (
  offer: RTCSessionDescriptionInit,
  { path, token }: WayInput,
  signal: AbortSignal,
): Promise<Response> =>
  fetch(path.whepUrl ?? "", {
    method: "POST",
    headers: { "content-type": "application/sdp", authorization: `Bearer ${token()}` },
    body: offer.sdp ?? "",
    signal,
  })

interface Inbound {
  readonly pictures: number
  readonly bytes: number
  readonly lost: number
  readonly dropped: number
  readonly latencyMs: number | null
}

const member = (report: Readonly<Record<string, unknown>>, name: string): number =>
  typeof report[name] === "number" ? report[name] : 0

/** What the browser counts (W3C WebRTC statistics): waiting in the jitter buffer, decoding, and half of the way there and back. */
const inboundOf = (reports: RTCStatsReport, before: { delay: number; emitted: number }): Inbound => {
  let inbound: Inbound = { pictures: 0, bytes: 0, lost: 0, dropped: 0, latencyMs: null }
  let half = 0
  let bytes = 0
  reports.forEach((report: Readonly<Record<string, unknown>>) => {
    if (report["type"] === "candidate-pair" && report["nominated"] === true) {
      half = member(report, "currentRoundTripTime") * 500
    }
    if (report["type"] !== "inbound-rtp") return
    bytes += member(report, "bytesReceived") + member(report, "headerBytesReceived")
    if (report["kind"] !== "video") return
    const delay = member(report, "jitterBufferDelay") + member(report, "totalDecodeTime")
    const emitted = member(report, "jitterBufferEmittedCount")
    inbound = {
      pictures: member(report, "framesDecoded"),
      bytes: 0,
      lost: Math.max(0, member(report, "packetsLost")),
      dropped: member(report, "framesDropped"),
      latencyMs: emitted > before.emitted ? (delay - before.delay) / (emitted - before.emitted) * 1000 : null,
    }
    before.delay = delay
    before.emitted = emitted
  })
  const { latencyMs } = inbound
  return { ...inbound, bytes, latencyMs: latencyMs === null ? null : latencyMs + half }
}

export const overWebrtc: StartWay = (input, told) => {
  const events = guarded(told)
  const { sound, video } = input
  const abort = new AbortController()
  const peer = new RTCPeerConnection({ bundlePolicy: "max-bundle" })
  const media = new MediaStream()
  let session: string | null = null

  peer.addTransceiver("video", { direction: "recvonly" })
  if (sound) peer.addTransceiver("audio", { direction: "recvonly" })
  peer.addEventListener("track", ({ receiver, track }) => {
    // Not every browser knows it.
    if ("jitterBufferTarget" in receiver) receiver.jitterBufferTarget = playoutDelay * 1000
    media.addTrack(track)
  })
  video.srcObject = media

  const leave = async (): Promise<void> => {
    if (session === null) return
    const headers = { authorization: `Bearer ${input.token()}` }
    const signal = AbortSignal.timeout(leaveMs)
    const place = session
    session = null
    await fetch(place, { method: "DELETE", keepalive: true, headers, signal }).catch(() => undefined)
  }
  const goAway = (): void => void leave()
  const close = (): void => {
    events.end()
    abort.abort()
    window.removeEventListener("pagehide", goAway)
    if (video.srcObject === media) video.srcObject = null
    // The end of the connection ends the session too, which could then not be found any more.
    void leave().finally(() => peer.close())
  }
  const fail = (fault: Fault): void => {
    events.onFault(fault)
    close()
  }

  peer.addEventListener("connectionstatechange", () => {
    if (peer.connectionState !== "failed") return
    const words = session === null ? "WebRTC could not be set up." : "The connection by WebRTC was lost."
    fail({ kind: "lost", words })
  })
  window.addEventListener("pagehide", goAway)

  const begin = async (): Promise<void> => {
    const offer = await peer.createOffer()
    const answer = await answerTo(offer, input, abort.signal)
    if (!answer.ok) return fail(await faultOf(answer))
    const place = answer.headers.get("location")
    session = place === null ? null : new URL(place, answer.url).href
    const sdp = await answer.text()
    if (abort.signal.aborted) return leave()
    if (sound && answer.headers.get("nightjar-sound") === "unplayable") return fail({ kind: "lost", words: aacWords })
    useServers(peer, answer.headers.get("link"))
    await peer.setLocalDescription(offer)
    await peer.setRemoteDescription({ type: "answer", sdp })
    await video.play().catch(() => undefined)
  }
  begin().catch(() => fail({ kind: "lost", words: "WebRTC could not be set up." }))

  const rates = meter(3000)
  const before = { delay: 0, emitted: 0 }
  const shown = () => events.onPicture()
  video.addEventListener("loadeddata", shown, { once: true, signal: abort.signal })
  return {
    close,
    figures: async () => {
      const { bytes, dropped, latencyMs, lost, pictures } = inboundOf(await peer.getStats(), before)
      return { width: video.videoWidth, height: video.videoHeight, dropped, lost, latencyMs, ...rates(pictures, bytes) }
    },
  }
}
