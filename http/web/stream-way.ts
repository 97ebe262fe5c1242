/**
 * What the ways of bringing a live stream into a page have in common: WebRTC, HLS, still pictures.
 *
 * Invariants
 * 1. A way tells of its first picture at most once, and of its end by itself exactly once: never after it was closed.
 * 2. `close` may be called at any time and again; nothing of the way is left in the elements afterwards but the last still.
 */
import type { MediaPath } from "#schema/camera.ts"

export type WayName = "webrtc" | "hls" | "stills"

/**
 * Why a way ended. `codec`: this browser cannot decode it. `unsupported`: it will not work here, whenever it is tried. `refused`:
 * the node does not let this user. `lost`: it may work again.
 */
export interface Fault {
  readonly kind: "codec" | "unsupported" | "refused" | "lost"
  /** One sentence for a person. */
  readonly words: string
}

/** What is measured since the last time it was asked for; null: not known by this way. */
export interface Figures {
  readonly width: number
  readonly height: number
  /** Pictures per second on screen. */
  readonly rate: number | null
  readonly bitsPerSecond: number | null
  /** Packets that never came, since the beginning. */
  readonly lost: number | null
  /** Pictures that came and were not shown, since the beginning. */
  readonly dropped: number | null
  /** From the recorder to the screen, as far as this way can tell. */
  readonly latencyMs: number | null
}

export interface WayInput {
  readonly path: MediaPath
  /** The stream token that is good now. */
  readonly token: () => string
  readonly video: HTMLVideoElement
  readonly still: HTMLImageElement
  readonly sound: boolean
}

export interface WayEvents {
  readonly onPicture: () => void
  readonly onFault: (fault: Fault) => void
}

export interface Way {
  readonly figures: () => Promise<Figures>
  readonly close: () => void
}

export type StartWay = (input: WayInput, events: WayEvents) => Way

/** The events of a way that lets them through only as long as it lives. */
export const guarded = (events: WayEvents): WayEvents & { readonly end: () => boolean } => {
  let seen = false
  let over = false
  /** True the first time. */
  const end = (): boolean => {
    const first = !over
    over = true
    return first
  }
  return {
    end,
    onPicture: () => {
      if (seen || over) return
      seen = true
      events.onPicture()
    },
    onFault: (fault) => {
      if (end()) events.onFault(fault)
    },
  }
}

/** Rates of counters that only grow, over the last `windowMs`: what comes in bursts needs a longer one. */
export const meter = (windowMs: number) => {
  let readings: ReadonlyArray<{ readonly at: number; readonly pictures: number; readonly bytes: number }> = []
  return (pictures: number, bytes: number) => {
    const at = performance.now()
    const last = readings.at(-1)
    const begunAnew = last !== undefined && (pictures < last.pictures || bytes < last.bytes)
    const kept = begunAnew ? [] : readings.filter((one) => at - one.at <= windowMs)
    const first = kept[0]
    readings = [...kept, { at, pictures, bytes }]
    const seconds = first === undefined ? 0 : (at - first.at) / 1000
    if (first === undefined || seconds < 0.5) return { rate: null, bitsPerSecond: null }
    return { rate: (pictures - first.pictures) / seconds, bitsPerSecond: (bytes - first.bytes) * 8 / seconds }
  }
}
