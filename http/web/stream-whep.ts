/**
 * A live stream by WebRTC, negotiated by WHEP (draft-ietf-wish-whep: an SDP offer in, the answer and the session's address out).
 *
 * Invariants
 * 1. The session at the node ends with the way, also when the page goes: the request that deletes it outlives the page.
 * 2. Sound is asked for only where somebody listens.
 */
import { Problem } from "#schema/problem.ts"
import { Option, Schema } from "effect"
import { type Fault, guarded, meter, type StartWay, type WayInput } from "./stream-way.ts"

/** The addresses of this machine are known at once; a server that tells public ones may take longer and is not waited for. */
const gatherMs = 500
/** Pictures wait so long for late packets before they are shown, seconds: the browser lengthens it by itself when it must. */
const playoutDelay = 0.05

const decodeProblem = Schema.decodeUnknownOption(Problem)

const whenGathered = (peer: RTCPeerConnection): Promise<void> =>
  new Promise((resolve) => {
    const timer = window.setTimeout(resolve, gatherMs)
    const look = () => {
      if (peer.iceGatheringState !== "complete") return
      window.clearTimeout(timer)
      resolve()
    }
    peer.addEventListener("icegatheringstatechange", look)
    look()
  })

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

const offerTo = async (peer: RTCPeerConnection, { path, token }: WayInput, signal: AbortSignal) => {
  await peer.setLocalDescription()
  await whenGathered(peer)
  return fetch(path.whepUrl ?? "", {
    method: "POST",
    headers: { "content-type": "application/sdp", authorization: `Bearer ${token()}` },
    body: peer.localDescription?.sdp ?? "",
    signal,
  })
}

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

  const leave = (): void => {
    if (session === null) return
    const headers = { authorization: `Bearer ${input.token()}` }
    void fetch(session, { method: "DELETE", keepalive: true, headers }).catch(() => undefined)
    session = null
  }
  const close = (): void => {
    events.end()
    abort.abort()
    window.removeEventListener("pagehide", leave)
    peer.close()
    leave()
    if (video.srcObject === media) video.srcObject = null
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
  window.addEventListener("pagehide", leave)

  const begin = async (): Promise<void> => {
    const answer = await offerTo(peer, input, abort.signal)
    if (!answer.ok) return fail(await faultOf(answer))
    const place = answer.headers.get("location")
    session = place === null ? null : new URL(place, answer.url).href
    const sdp = await answer.text()
    if (abort.signal.aborted) return leave()
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
