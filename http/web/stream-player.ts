/**
 * Plays one live stream into a page by the best way that works, and keeps at it.
 *
 * Invariants
 * 1. Ways are tried from the quickest to the plainest. A way that this browser can never play is not tried again; one that failed
 *    is left out for {@link avoidMs}.
 * 2. What was playing is begun again by the same way; without a picture in between, each time after a longer pause, up to
 *    {@link longestPauseMs}.
 * 3. At most {@link mostAtOnce} streams of a page are being set up at the same time.
 * 4. A picture that stands still is told of, and after {@link stillMs} begun anew.
 */
import type { MediaPath } from "#schema/camera.ts"
import type { StreamId } from "#schema/common.ts"
import type { AudioCodec, VideoCodec } from "#schema/media.ts"
import { freshStreamToken, mediaPathOf } from "./api-live.ts"
import { messageOf, tagOf } from "./api.ts"
import { overHls } from "./stream-hls.ts"
import { hindrance, noDecoder } from "./stream-support.ts"
import type { Fault, Figures, StartWay, Way, WayName } from "./stream-way.ts"
import { overWebrtc } from "./stream-whep.ts"

/**
 * `waiting`: nothing plays, and it will be tried again. `refused`: the node does not let this user; asked again all the same.
 * `undecodable`: this browser has no way to decode the stream. `unoffered`: the node has none at the moment.
 */
export type LivePhase = "connecting" | "playing" | "standing" | "waiting" | "refused" | "undecodable" | "unoffered"

export interface LiveState {
  readonly phase: LivePhase
  /** How it plays; null before it does. */
  readonly way: WayName | null
  /** Why there is no picture, or why it does not come by a quicker way; empty where there is nothing to tell. */
  readonly reason: string
  /** While it stands still: since when, epoch milliseconds. */
  readonly since: number | null
}

export const beginning: LiveState = { phase: "connecting", way: null, reason: "", since: null }

const avoidMs = 60_000
const longestPauseMs = 15_000
const mostAtOnce = 4
/** Until the first picture: the way is given up afterwards. */
const patienceMs = 12_000
/** A picture that has not moved for this long is told of; then it is begun anew. */
const noticeMs = 4000
const stillMs = 15_000
const lookMs = 1000
/** A place among those that are being set up is given on after this long at the latest. */
const setUpMs = 3000
/** A token is renewed so long before it ends. */
const tokenReserveMs = 60_000

let settingUp = 0
const queue: Array<() => void> = []

/** Resolves with what gives the place on. */
const takePlace = async (): Promise<() => void> => {
  if (settingUp >= mostAtOnce) await new Promise<void>((resolve) => queue.push(resolve))
  else settingUp++
  let given = false
  const give = () => {
    if (given) return
    given = true
    window.clearTimeout(timer)
    const next = queue.shift()
    if (next === undefined) settingUp--
    else next()
  }
  const timer = window.setTimeout(give, setUpMs)
  return give
}

interface Candidate {
  readonly name: WayName
  readonly start: StartWay
  readonly offered: (path: MediaPath) => boolean
}

const candidates: ReadonlyArray<Candidate> = [
  { name: "webrtc", start: overWebrtc, offered: (path) => path.whepUrl !== null },
  { name: "hls", start: overHls, offered: () => true },
]

export interface PlayerInput {
  readonly streamId: StreamId
  /** What the stream was last seen to carry. */
  readonly carries: () => { readonly codec: VideoCodec | null; readonly audioCodec: AudioCodec | null }
  readonly sound: boolean
  readonly video: HTMLVideoElement
  readonly still: HTMLImageElement
  readonly onState: (state: LiveState) => void
}

export interface LivePlayer {
  readonly setSound: (sound: boolean) => void
  /** Null while nothing plays. */
  readonly figures: () => Promise<Figures | null>
  readonly close: () => void
}

interface Outcome {
  readonly fault: Fault
  /** Whether there was a picture. */
  readonly played: boolean
}

const noWay = "The recorder offers no live picture of this stream."
const aacWords = "WebRTC carries no AAC: with sound the stream is played by HLS, a little later."

class Player implements LivePlayer {
  readonly #input: PlayerInput
  readonly #avoided = new Map<WayName, { readonly until: number; readonly words: string }>()
  readonly #closed = new AbortController()
  #sound: boolean
  #way: Way | null = null
  /** Ends what plays now, to begin again with other wishes. */
  #again: (() => void) | null = null
  #state = beginning
  #pause: (() => void) | null = null

  constructor(input: PlayerInput) {
    this.#input = input
    this.#sound = input.sound
    void this.#run()
  }

  #tell(state: Partial<LiveState>): void {
    if (this.#closed.signal.aborted) return
    const next = { ...this.#state, ...state }
    const { phase, reason, since, way } = this.#state
    if (next.phase === phase && next.way === way && next.reason === reason && next.since === since) return
    this.#state = next
    this.#input.onState(next)
  }

  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = window.setTimeout(resolve, ms)
      this.#pause = () => {
        window.clearTimeout(timer)
        resolve()
      }
    })
  }

  /** The best way that may be tried now, and why it is not a better one. */
  #choose(path: MediaPath): { readonly candidate: Candidate | null; readonly reason: string } {
    const reasons: Array<string> = []
    const { audioCodec, codec } = this.#input.carries()
    for (const candidate of candidates.filter((one) => one.offered(path))) {
      const avoided = this.#avoided.get(candidate.name)
      const hindered = hindrance(codec, candidate.name)
      if (avoided !== undefined && avoided.until > performance.now()) reasons.push(avoided.words)
      else if (hindered !== null) reasons.push(hindered)
      else if (candidate.name === "webrtc" && this.#sound && audioCodec === "aac") reasons.push(aacWords)
      else return { candidate, reason: reasons[0] ?? "" }
    }
    return { candidate: null, reason: reasons[0] ?? noWay }
  }

  async #run(): Promise<void> {
    let failures = 0
    while (!this.#closed.signal.aborted) {
      const give = await takePlace()
      const pause = await this.#attempt(failures, give).finally(give)
      failures = pause === null ? 0 : failures + 1
      // A little apart, so that the tiles of a wall do not come back all at once.
      const jitter = 0.7 + 0.6 * Math.random()
      await this.#rest(pause === null ? 300 * jitter : Math.min(longestPauseMs, pause * jitter))
    }
  }

  /** One try by one way, until it ends. How long to wait before the next one, ms; null: it has played. */
  async #attempt(failures: number, give: () => void): Promise<number | null> {
    if (this.#closed.signal.aborted) return null
    const longer = 500 * 2 ** Math.min(failures, 6)
    let path: MediaPath
    try {
      path = await mediaPathOf(this.#input.streamId)
    } catch (error) {
      const refused = tagOf(error) === "Forbidden" || tagOf(error) === "StreamNotFound"
      this.#tell({ phase: refused ? "refused" : "waiting", way: null, reason: messageOf(error) })
      return refused ? longestPauseMs : longer
    }
    const { candidate, reason } = this.#choose(path)
    if (candidate === null) {
      const phase = reason === noDecoder ? "undecodable" : reason === noWay ? "unoffered" : "waiting"
      this.#tell({ phase, way: null, reason })
      return longer
    }
    if (this.#state.phase !== "waiting" || failures === 0) this.#tell({ phase: "connecting", reason })
    const { fault, played } = await this.#play(candidate, path, reason, give)
    if (played) return null
    const forEver = fault.kind === "codec" || fault.kind === "unsupported"
    this.#avoided.set(candidate.name, {
      until: forEver ? Infinity : performance.now() + avoidMs,
      words: fault.kind === "codec" ? noDecoder : fault.words,
    })
    const next = this.#choose(path)
    if (next.candidate !== null) return 0
    this.#avoided.forEach(({ until }, name) => until < Infinity && this.#avoided.delete(name))
    this.#tell({ phase: fault.kind === "refused" ? "refused" : "waiting", way: null, reason: fault.words })
    return longer
  }

  #play({ name, start }: Candidate, path: MediaPath, reason: string, give: () => void): Promise<Outcome> {
    const { still, streamId, video } = this.#input
    if (this.#closed.signal.aborted) return Promise.resolve({ fault: { kind: "lost", words: "" }, played: true })
    return new Promise((resolve) => {
      let { expiresAt, token } = path
      let played = false
      let renewing = false
      let pictures = 0
      let moved = performance.now()
      const end = (fault: Fault) => {
        window.clearInterval(timer)
        way.close()
        this.#way = null
        this.#again = null
        resolve({ fault, played })
      }
      const way = start({ path, token: () => token, video, still, sound: this.#sound }, {
        onPicture: () => {
          played = true
          moved = performance.now()
          give()
          this.#tell({ phase: "playing", way: name, reason, since: null })
        },
        onFault: end,
      })
      const renew = () => {
        renewing = true
        void freshStreamToken(streamId).then((fresh) => {
          ;({ expiresAt, token } = fresh)
        }, () => undefined).finally(() => {
          renewing = false
        })
      }
      const look = () => {
        if (!renewing && expiresAt - Date.now() < tokenReserveMs) renew()
        const quiet = performance.now() - moved
        if (!played) return quiet > patienceMs ? end({ kind: "lost", words: "No picture came." }) : undefined
        if (name === "stills") return
        const { totalVideoFrames } = video.getVideoPlaybackQuality()
        if (totalVideoFrames !== pictures) {
          pictures = totalVideoFrames
          moved = performance.now()
          return this.#tell({ phase: "playing", since: null })
        }
        if (quiet > stillMs) return end({ kind: "lost", words: "The picture stood still." })
        if (quiet > noticeMs && this.#state.phase !== "standing") {
          this.#tell({ phase: "standing", since: Math.round(Date.now() - quiet) })
        }
      }
      const timer = window.setInterval(look, lookMs)
      this.#way = way
      this.#again = () => {
        // What a person wished for is no failure.
        played = true
        end({ kind: "lost", words: "" })
      }
    })
  }

  setSound(sound: boolean): void {
    if (sound === this.#sound) return
    this.#sound = sound
    // WebRTC asks for sound only where it is wanted; where it cannot carry it, another way does.
    if (sound || this.#input.carries().audioCodec === "aac") this.#again?.()
  }

  figures(): Promise<Figures | null> {
    return this.#way?.figures().catch(() => null) ?? Promise.resolve(null)
  }

  close(): void {
    this.#closed.abort()
    this.#again?.()
    this.#pause?.()
  }
}

export const playLive = (input: PlayerInput): LivePlayer => new Player(input)
