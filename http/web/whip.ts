/**
 * Publishing from this browser by WHIP (RFC 9725), again and again until it is stopped.
 *
 * Invariants
 * 1. One connection at a time; after one that failed the next comes after 1 to 15 s, sooner when the network comes back.
 * 2. Only a refusal (401) ends it by itself: everything else may get better.
 */
import { useServers } from "./ice.ts"

export type PublishState =
  | { readonly kind: "connecting" }
  | { readonly kind: "live" }
  /** Tries again after a while; why, in words. */
  | { readonly kind: "waiting"; readonly reason: string }
  /** This phone is not registered (any more). */
  | { readonly kind: "refused" }

const endpoint = "/camera/api/v1/mobile/whip"
/** 720p of a scene that moves. */
const maxBitrate = 2_500_000
const [firstWaitMs, longestWaitMs] = [1_000, 15_000]
/** A connection that is not there by then never comes. */
const connectMs = 15_000

class Refused extends Error {}

const detailOf = async (answer: Response): Promise<string> => {
  const text = await answer.text()
  try {
    const problem = JSON.parse(text) as { readonly detail?: unknown }
    return typeof problem.detail === "string" ? problem.detail : `the recorder answered ${answer.status}`
  } catch {
    return `the recorder answered ${answer.status}`
  }
}

/** The recorder takes H.264 alone; other codecs are offered behind it, as browsers do. */
const preferH264 = (transceiver: RTCRtpTransceiver) => {
  const codecs = RTCRtpReceiver.getCapabilities("video")?.codecs ?? []
  const rank = ({ mimeType, sdpFmtpLine = "" }: RTCRtpCodec) =>
    mimeType.toLowerCase() !== "video/h264" ? 2 : sdpFmtpLine.includes("42e01f") ? 0 : 1
  if (codecs.length > 0) transceiver.setCodecPreferences(codecs.toSorted((a, b) => rank(a) - rank(b)))
}

const offerOf = async (connection: RTCPeerConnection, media: MediaStream): Promise<RTCSessionDescriptionInit> => {
  for (const track of media.getTracks()) {
    const encodings = track.kind === "video" ? { sendEncodings: [{ maxBitrate }] } : {}
    const transceiver = connection.addTransceiver(track, { direction: "sendonly", streams: [media], ...encodings })
    if (track.kind !== "video") continue
    preferH264(transceiver)
    // Another resolution would begin another file: let the rate of pictures give way first.
    const parameters: RTCRtpSendParameters & { degradationPreference?: string } = transceiver.sender.getParameters()
    parameters.degradationPreference = "maintain-resolution"
    await transceiver.sender.setParameters(parameters).catch(() => undefined)
  }
  return connection.createOffer()
}

/** Until the connection has ended; fails with why, in words. */
const ended = (connection: RTCPeerConnection, signal: AbortSignal, onLive: () => void): Promise<never> =>
  new Promise((_resolve, reject) => {
    const late = setTimeout(() => reject(new Error("the way for pictures (UDP) is closed")), connectMs)
    const look = () => {
      const state = connection.connectionState
      if (state === "connected") {
        clearTimeout(late)
        onLive()
      } else if (state === "failed" || state === "disconnected" || state === "closed") {
        clearTimeout(late)
        reject(new Error("the connection was lost"))
      }
    }
    connection.addEventListener("connectionstatechange", look)
    signal.addEventListener("abort", () => {
      clearTimeout(late)
      reject(new Error("stopped"))
    })
  })

const session = async (media: MediaStream, secret: string, signal: AbortSignal, onLive: () => void): Promise<void> => {
  const connection = new RTCPeerConnection()
  let location: string | null = null
  try {
    const offer = await offerOf(connection, media)
    const headers = { "content-type": "application/sdp", authorization: `Bearer ${secret}` }
    const answer = await fetch(endpoint, {
      method: "POST",
      headers,
      body: offer.sdp ?? "",
      signal,
      credentials: "omit",
    })
    if (answer.status === 401) throw new Refused()
    if (answer.status !== 201) throw new Error(await detailOf(answer))
    location = answer.headers.get("location")
    useServers(connection, answer.headers.get("link"))
    await connection.setLocalDescription(offer)
    const over = ended(connection, signal, onLive)
    await connection.setRemoteDescription({ type: "answer", sdp: await answer.text() })
    await over
  } finally {
    connection.close()
    if (location !== null) void fetch(location, { method: "DELETE", keepalive: true }).catch(() => undefined)
  }
}

const pause = (ms: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve) => {
    const go = () => {
      clearTimeout(timer)
      window.removeEventListener("online", go)
      resolve()
    }
    const timer = setTimeout(go, ms)
    window.addEventListener("online", go)
    signal.addEventListener("abort", go)
  })

/** Begins at once; the answered function stops it. */
export const publish = (media: MediaStream, secret: string, tell: (state: PublishState) => void): () => void => {
  const stop = new AbortController()
  const { signal } = stop
  const run = async () => {
    let waitMs = firstWaitMs
    while (!signal.aborted) {
      tell({ kind: "connecting" })
      try {
        await session(media, secret, signal, () => {
          waitMs = firstWaitMs
          tell({ kind: "live" })
        })
      } catch (error) {
        if (signal.aborted) return
        if (error instanceof Refused) return tell({ kind: "refused" })
        const reason = error instanceof TypeError ? "the recorder does not answer" : (error as Error).message
        tell({ kind: "waiting", reason })
      }
      await pause(waitMs, signal)
      waitMs = Math.min(longestWaitMs, waitMs * 2)
    }
  }
  void run()
  return () => stop.abort()
}
