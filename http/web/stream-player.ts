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
import type { AudioCodec, VideoCodec } from "#schema/media.ts"
import type { LiveSource } from "./api-live.ts"
import { messageOf, tagOf } from "./api.ts"
import { overHls } from "./stream-hls.ts"
import { overStills } from "./stream-stills.ts"
import { hindrance, noDecoder } from "./stream-support.ts"
import type { Fault, Figures, StartWay, Way, WayName } from "./stream-way.ts"
import { aacWords, overWebrtc } from "./stream-whep.ts"

/**
 * `waiting`: nothing plays, and it will be tried again. `refused`: the node does not let this user; asked again all the same.
 */
export type LivePhase = "connecting" | "playing" | "standing" | "waiting" | "refused"

export interface LiveState {
  readonly phase: LivePhase
  /** How it plays; null before it does. */
  readonly way: WayName | null
  /** Why there is no picture, or why it does not come by a quicker way; empty where there is nothing to tell. */
  readonly reason: string
  /** This browser has no decoder for the stream: there are still pictures at best. */
  readonly undecodable: boolean
  /** While it stands still: since when, epoch milliseconds. */
  readonly since: number | null
}

export const beginning: LiveState = { phase: "connecting", way: null, reason: "", undecodable: false, since: null }

const avoidMs = 60_000
const longestPauseMs = 15_000
const mostAtOnce = 4
/** Until the first picture: the way is given up afterwards. */
const patienceMs = 12_000
/** A picture that has not moved for this long is told of; then it is begun anew. */
const noticeMs = 4000
const stillMs = 15_000
const lookMs = 1000
/** What plays for less is begun again with a longer pause each time. */
const steadyMs = 10_000
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
  { name: "stills", start: overStills, offered: () => true },
]

export interface PlayerInput {
  readonly source: LiveSource
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
  /** It went on for a while, or somebody wished for an end. */
  readonly steady: boolean
}

interface Choice {
  readonly candidate: Candidate | null
  readonly reason: string
  readonly undecodable: boolean
}

const chosen = (candidate: Candidate | null, reasons: ReadonlyArray<string>): Choice => {
  const undecodable = reasons.includes(noDecoder)
  return { candidate, undecodable, reason: undecodable ? noDecoder : reasons[0] ?? "" }
}

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
    const { phase, reason, since, undecodable, way } = this.#state
    const same = next.phase === phase && next.way === way && next.reason === reason && next.since === since &&
      next.undecodable === undecodable
    if (same) return
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
  #choose(path: MediaPath): Choice {
    const reasons: Array<string> = []
    const { audioCodec, codec } = this.#input.carries()
    for (const candidate of candidates.filter((one) => one.offered(path))) {
      const avoided = this.#avoided.get(candidate.name)
      const hindered = hindrance(codec, candidate.name)
      if (hindered !== null) reasons.push(hindered)
      else if (avoided !== undefined && avoided.until > performance.now()) reasons.push(avoided.words)
      else if (candidate.name === "webrtc" && this.#sound && audioCodec === "aac") reasons.push(aacWords)
      else return chosen(candidate, reasons)
    }
    return chosen(null, reasons)
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
      path = await this.#input.source.path()
    } catch (error) {
      const refused = tagOf(error) === "Forbidden" || tagOf(error) === "StreamNotFound" ||
        tagOf(error) === "ChannelNotFound"
      this.#tell({ phase: refused ? "refused" : "waiting", way: null, reason: messageOf(error) })
      return refused ? longestPauseMs : longer
    }
    const { candidate, ...why } = this.#choose(path)
    if (candidate === null) {
      this.#tell({ phase: "waiting", way: null, ...why })
      return longer
    }
    if (this.#state.phase !== "waiting" || failures === 0) this.#tell({ phase: "connecting", ...why })
    const { fault, played, steady } = await this.#play(candidate, path, why, give)
    if (played) return steady ? null : longer
    const forEver = fault.kind === "codec" || fault.kind === "unsupported"
    this.#avoided.set(candidate.name, {
      until: forEver ? Infinity : performance.now() + avoidMs,
      words: fault.kind === "codec" ? noDecoder : fault.words,
    })
    const next = this.#choose(path)
    if (next.candidate !== null) return 0
    this.#avoided.forEach(({ until }, name) => until < Infinity && this.#avoided.delete(name))
    const reason = next.undecodable ? next.reason : fault.words
    this.#tell({
      undecodable: next.undecodable,
      phase: fault.kind === "refused" ? "refused" : "waiting",
      way: null,
      reason,
    })
    return longer
  }

  #play(
    { name, start }: Candidate,
    path: MediaPath,
    why: Omit<Choice, "candidate">,
    give: () => void,
  ): Promise<Outcome> {
    const { source, still, video } = this.#input
    const wished: Outcome = { fault: { kind: "lost", words: "" }, played: true, steady: true }
    if (this.#closed.signal.aborted) return Promise.resolve(wished)
    return new Promise((resolve) => {
      let { expiresAt, token } = path
      /** When the first picture came; null before. */
      let played: number | null = null
      let renewing = false
      let pictures = 0
      let moved = performance.now()
      const leave = (outcome: Outcome) => {
        window.clearInterval(timer)
        way.close()
        this.#way = null
        this.#again = null
        resolve(outcome)
      }
      const end = (fault: Fault) =>
        leave({ fault, played: played !== null, steady: played !== null && performance.now() - played > steadyMs })
      const way = start({ path, token: () => token, video, still, sound: this.#sound }, {
        onPicture: () => {
          played = moved = performance.now()
          give()
          this.#tell({ ...why, phase: "playing", way: name, since: null })
        },
        onFault: end,
      })
      const renew = () => {
        renewing = true
        void source.renew().then((fresh) => {
          ;({ expiresAt, token } = fresh)
        }, () => undefined).finally(() => {
          renewing = false
        })
      }
      const look = () => {
        if (!renewing && expiresAt - Date.now() < tokenReserveMs) renew()
        const quiet = performance.now() - moved
        if (played === null) return quiet > patienceMs ? end({ kind: "lost", words: "No picture came." }) : undefined
        if (name === "stills") return this.#choose(path).candidate?.name === name ? undefined : leave(wished)
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
      this.#again = () => leave(wished)
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
