/**
 * Talking to a camera from this browser: the microphone, offered to the node by WHIP (RFC 9725) in the camera's own codec.
 *
 * Invariants
 * 1. The microphone is open for as long as somebody talks, and not a moment longer, whatever went wrong.
 * 2. Nothing is sent before the node said that the camera is held for this user.
 */
import type { TalkCodec, TalkSession } from "#schema/camera-talk.ts"
import type { ChannelId, StreamId } from "#schema/common.ts"
import { call } from "./api.ts"
import { useServers } from "./ice.ts"

export interface Talk {
  /** Loudness now, 0 to 1. */
  readonly level: () => number
  /** Returns when the camera has been left. */
  readonly stop: () => Promise<void>
}

const mimeTypes: Readonly<Record<TalkCodec, string>> = { pcmu: "audio/PCMU", pcma: "audio/PCMA" }

/** What getUserMedia refused with (Media Capture and Streams, section 10.2), in words. */
const words: Readonly<Record<string, string>> = {
  NotAllowedError: "The browser does not let this page use the microphone; its settings for this site can change that.",
  NotFoundError: "No microphone was found on this device.",
  NotReadableError: "The microphone is in use by another program.",
  SecurityError: "The browser does not let this page use the microphone.",
}

const openMicrophone = async (): Promise<MediaStream> => {
  // Not there at all on pages that are not from a secure origin.
  const devices = navigator.mediaDevices as MediaDevices | undefined
  if (devices === undefined) throw new Error("Browsers offer the microphone to pages from https addresses only.")
  try {
    return await devices.getUserMedia({
      audio: { echoCancellation: true, noiseSuppression: true, autoGainControl: true },
    })
  } catch (error) {
    const name = error instanceof DOMException ? error.name : ""
    throw new Error(words[name] ?? "The microphone cannot be opened.", { cause: error })
  }
}

/** What the microphone hears, as a number; it goes with `close`. */
const makeMeter = (microphone: MediaStream): { readonly level: () => number; readonly close: () => void } => {
  const context = new AudioContext()
  const analyser = context.createAnalyser()
  analyser.fftSize = 512
  context.createMediaStreamSource(microphone).connect(analyser)
  const samples = new Float32Array(analyser.fftSize)
  return {
    level: () => {
      analyser.getFloatTimeDomainData(samples)
      const power = samples.reduce((sum, sample) => sum + sample * sample, 0) / samples.length
      // Speech at arm's length is about -30 dB; below -60 is a quiet room.
      return Math.min(1, Math.max(0, (10 * Math.log10(power + 1e-10) + 60) / 50))
    },
    close: () => void context.close(),
  }
}

/** How a camera is held, offered a microphone, and left. */
interface TalkDoor {
  readonly open: () => Promise<TalkSession>
  readonly offer: (sdp: string) => Promise<{ readonly answer: string; readonly link: string | null }>
  readonly close: () => Promise<void>
}

/** `remote`: the channel as it is known here, where it is another node's. */
const doorOf = (streamId: StreamId, remote: ChannelId | null): TalkDoor => {
  const responseMode = "decoded-and-response"
  if (remote === null) {
    const params = { stream_id: streamId }
    return {
      open: async () => (await call((api) => api.cameraTalk.openTalk({ params }))).body,
      offer: async (payload) => {
        const [answer, { headers }] = await call((api) => api.cameraTalk.offerTalk({ params, payload, responseMode }))
        return { answer, link: headers["link"] ?? null }
      },
      close: () => call((api) => api.cameraTalk.closeTalk({ params })),
    }
  }
  const params = { channelId: remote }
  return {
    open: () => call((api) => api.bffTalk.openFederatedTalk({ params })),
    offer: async (payload) => {
      const [answer, { headers }] = await call((api) =>
        api.bffTalk.offerFederatedTalk({ params, payload, responseMode })
      )
      return { answer, link: headers["link"] ?? null }
    },
    close: () => call((api) => api.bffTalk.closeFederatedTalk({ params })),
  }
}

const connect = async (door: TalkDoor, microphone: MediaStream, codec: TalkCodec): Promise<RTCPeerConnection> => {
  const peer = new RTCPeerConnection()
  const [track] = microphone.getAudioTracks()
  const transceiver = peer.addTransceiver(track ?? "audio", { direction: "sendonly", streams: [microphone] })
  const offered = RTCRtpSender.getCapabilities("audio")?.codecs ?? []
  const fitting = offered.filter(({ mimeType }) => mimeType.toLowerCase() === mimeTypes[codec].toLowerCase())
  if (fitting.length === 0) throw new Error("This browser cannot send what the camera takes (G.711).")
  transceiver.setCodecPreferences(fitting)
  const offer = await peer.createOffer()
  const { answer, link } = await door.offer(offer.sdp ?? "")
  useServers(peer, link)
  await peer.setLocalDescription(offer)
  await peer.setRemoteDescription({ type: "answer", sdp: answer })
  return peer
}

/** Holds the camera and talks to it; `onEnd` is told once if it ends without being stopped. `remote`: as for {@link doorOf}. */
export const talkTo = async (
  streamId: StreamId,
  remote: ChannelId | null,
  onEnd: (words: string) => void,
): Promise<Talk> => {
  const door = doorOf(streamId, remote)
  const microphone = await openMicrophone()
  let peer: RTCPeerConnection | null = null
  let meter: ReturnType<typeof makeMeter> | null = null
  let held = false
  let over = false
  const stop = async (): Promise<void> => {
    if (over) return
    over = true
    for (const track of microphone.getTracks()) track.stop()
    meter?.close()
    // Whoever ended it elsewhere has left nothing to end.
    if (held) await door.close().catch(() => undefined)
    peer?.close()
  }
  try {
    const session = await door.open()
    held = true
    peer = await connect(door, microphone, session.codec)
    meter = makeMeter(microphone)
  } catch (error) {
    await stop()
    throw error
  }
  const { level } = meter
  const connection = peer
  const lost = (said: string) => {
    if (over) return
    void stop()
    onEnd(said)
  }
  connection.addEventListener("connectionstatechange", () => {
    const { connectionState } = connection
    if (connectionState === "failed" || connectionState === "closed") lost("The connection with the recorder was lost.")
    if (connectionState === "disconnected") lost("Talking to the camera was ended.")
  })
  microphone.getAudioTracks()[0]?.addEventListener("ended", () => lost("The microphone was unplugged."))
  return { level, stop }
}
