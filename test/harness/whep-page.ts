/**
 * Chromium as a viewer by WHEP.
 *
 * Invariants
 * 1. Ages and freezes count from two seconds on: what a browser begins with is played as fast as it can.
 * 2. Every picture is known by the mark of the simulated camera (`sei.ts`) in its encoded bytes; what is shown is matched to it by its RTP
 *    time. A picture's age is from when the camera sent it to when the browser shows it.
 */
import { launchWholeChromium } from "./chromium.ts"

/**
 * Its offer is made; the answer is there; a path is found; keys are agreed upon; the first picture is whole, encoded; it is on the screen.
 */
export const whepSteps = ["offer", "answer", "path", "keys", "whole", "shown"] as const
export type WhepStep = (typeof whepSteps)[number]

export interface WhepSeen {
  readonly errors: ReadonlyArray<string>
  readonly state: string
  readonly sound: string | null
  /** Numbers of the pictures that arrived whole, in order. */
  readonly frames: ReadonlyArray<number>
  /** Milliseconds from camera to screen, of pictures that were shown; the group that the browser begins with apart. */
  readonly ages: ReadonlyArray<number>
  /** Milliseconds from the click to the first picture on the screen; null before. */
  readonly firstMs: number | null
  /** Milliseconds from the click to each step on the way there, those that have been taken. */
  readonly steps: Readonly<Partial<Record<WhepStep, number>>>
  readonly decoded: number
  readonly dropped: number
  readonly freezes: number
  readonly lost: number
  readonly nacks: number
  readonly plis: number
  /** Of the candidate pair in use. */
  readonly protocol: string | null
}

export interface WhepPageOptions {
  readonly base: string
  readonly whepUrl: string
  readonly token: string
  /** `address port` in place of the node's candidates. */
  readonly through?: number
}

const page = ({ through, token, whepUrl }: WhepPageOptions) =>
  `<!doctype html><video id="v" muted autoplay playsinline></video><script>
const v = document.getElementById("v"), errors = [], frames = new Map(), ages = []
let began = Number.NaN
const steps = {}, step = (name) => { steps[name] ??= performance.now() - began }
let firstMs = null, sound = null
const mark = [..."nightjar-frame-1sim1 "].map((c) => c.charCodeAt(0))
const look = (data, time) => {
  for (let at = data.indexOf(mark[0]); at >= 0; at = data.indexOf(mark[0], at + 1)) {
    if (!mark.every((byte, i) => data[at + i] === byte)) continue
    const text = String.fromCharCode(...data.subarray(at + 54, at + 80))
    frames.set(time, { frame: Number(text.slice(0, 12)), sentMs: Number(text.slice(13, 26)) })
    return
  }
}
const shown = (now, { rtpTimestamp, expectedDisplayTime }) => {
  step("shown")
  firstMs ??= steps.shown
  const picture = frames.get(rtpTimestamp)
  if (picture !== undefined && performance.now() - began > 2000) ages.push(performance.timeOrigin + expectedDisplayTime - picture.sentMs)
  v.requestVideoFrameCallback(shown)
}
v.requestVideoFrameCallback(shown)
let pc = null
const connect = () => {
  pc = new RTCPeerConnection({ encodedInsertableStreams: true })
  pc.ontrack = ({ receiver, streams, track }) => {
    const { readable, writable } = receiver.createEncodedStreams()
    readable.pipeThrough(new TransformStream({ transform: (frame, to) => {
      if (track.kind === "video") step("whole")
      if (track.kind === "video") look(new Uint8Array(frame.data), frame.getMetadata().rtpTimestamp ?? frame.timestamp)
      to.enqueue(frame)
    } })).pipeTo(writable)
    if (track.kind === "video") v.srcObject = streams[0]
  }
  pc.oniceconnectionstatechange = () => { if (pc.iceConnectionState === "connected") step("path") }
  pc.onconnectionstatechange = () => { if (pc.connectionState === "connected") step("keys") }
  pc.addTransceiver("video", { direction: "recvonly" })
  pc.addTransceiver("audio", { direction: "recvonly" })
}
const open = async () => {
  connect()
  await pc.setLocalDescription()
  step("offer")
  const response = await fetch(${JSON.stringify(whepUrl)}, { method: "POST", body: pc.localDescription.sdp,
    headers: { "content-type": "application/sdp", authorization: "Bearer ${token}" } })
  sound = response.headers.get("nightjar-sound")
  let sdp = await response.text()
  step("answer")
  if (response.status !== 201) throw new Error(response.status + " " + sdp)
  const through = ${through ?? 0}
  if (through > 0) sdp = sdp.replaceAll(/^a=candidate:\\S+ 1 tcp .*\\r\\n/gm, "").replaceAll(/^(a=candidate:\\S+ 1 udp \\d+ )\\S+ \\d+/gm, "$1127.0.0.1 " + through)
  await pc.setRemoteDescription({ type: "answer", sdp })
}
let frozen = null
window.watch = () => {
  began = performance.now()
  open().catch((error) => errors.push(String(error)))
  setTimeout(async () => { frozen = (await received()).freezeCount ?? 0 }, 2000)
}
const received = async () =>
  pc === null ? {} : [...(await pc.getStats()).values()].find((one) => one.type === "inbound-rtp" && one.kind === "video") ?? {}
const protocol = async () => {
  const stats = pc === null ? new Map() : await pc.getStats()
  const transport = [...stats.values()].find((one) => one.type === "transport")
  return stats.get(stats.get(transport?.selectedCandidatePairId)?.remoteCandidateId)?.protocol ?? null
}
window.seen = async () => {
  const inbound = await received()
  return { errors, sound, firstMs, steps, ages, state: pc?.connectionState ?? "new", frames: [...frames.values()].map((one) => one.frame),
    decoded: inbound.framesDecoded ?? 0, dropped: inbound.framesDropped ?? 0, freezes: frozen === null ? 0 : inbound.freezeCount - frozen, lost: inbound.packetsLost ?? 0,
    nacks: inbound.nackCount ?? 0, plis: inbound.pliCount ?? 0, protocol: await protocol() }
}
window.close = () => pc.close()
</script>`

export interface WhepPage {
  readonly seen: () => Promise<WhepSeen>
  /** Looks four times a second until it is so, or the limit is reached. */
  readonly until: (so: (seen: WhepSeen) => boolean, limitMs: number) => Promise<WhepSeen>
  readonly close: () => Promise<void>
}

export type OpenWhep = (options: WhepPageOptions) => Promise<WhepPage>

/** Opens pages one after the other in one browser. `more`: of its command line. */
export const withChromium = async <A>(use: (open: OpenWhep) => Promise<A>, more: ReadonlyArray<string> = []) => {
  const browser = await launchWholeChromium(
    "--autoplay-policy=no-user-gesture-required",
    "--allow-loopback-in-peer-connection",
    "--disable-features=WebRtcHideLocalIpsWithMdns",
    ...more,
  )
  try {
    return await use(async (options) => {
      const tab = await browser.newPage()
      await tab.route(
        `${options.base}/watch`,
        (route) => route.fulfill({ contentType: "text/html", body: page(options) }),
      )
      await tab.goto(`${options.base}/watch`)
      // What it asks for must not come by way of this program.
      await tab.unrouteAll()
      await tab.evaluate("watch()")
      const seen = () => tab.evaluate<WhepSeen>("seen()")
      return {
        seen,
        close: () => tab.close(),
        until: async (so, limitMs) => {
          const begun = performance.now()
          for (;;) {
            const now = await seen()
            if (so(now) || performance.now() - begun > limitMs || now.errors.length > 0) return now
            await tab.waitForTimeout(250)
          }
        },
      }
    })
  } finally {
    await browser.close()
  }
}
