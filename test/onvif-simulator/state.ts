/**
 * What a simulated device remembers.
 *
 * Invariants
 * 1. A change by one request is seen by the next; nothing is remembered elsewhere.
 */
import { Configuration } from "./configuration.ts"
import { Events } from "./events.ts"
import { type DeviceOptions, type Encoder, noQuirks, type Quirks } from "./options.ts"

export interface Position {
  pan: number
  tilt: number
  zoom: number
}

export interface Preset {
  readonly token: string
  name: string
  position: Position
}

export interface Tour {
  readonly token: string
  name: string
  state: "Idle" | "Touring" | "Paused"
  autoStart: string
  spots: ReadonlyArray<{ readonly preset: string; readonly stay: string }>
}

/** Limits of the PTZ configuration: narrower than its node until somebody widens them. */
export interface Limits {
  panTilt: readonly [number, number]
  zoom: readonly [number, number]
}

export class State {
  readonly options: DeviceOptions
  readonly quirks: Quirks
  /** `http://127.0.0.1:PORT`. */
  base = ""
  readonly encoders: { readonly main: Encoder; readonly sub: Encoder } = {
    main: {
      token: "encoder-main",
      name: "Main",
      encoding: "H264",
      width: 640,
      height: 360,
      quality: 60,
      frameRate: 25,
      bitrate: 1024,
      govLength: 50,
      profile: "Main",
    },
    sub: {
      token: "encoder-sub",
      name: "Sub",
      encoding: "H264",
      width: 320,
      height: 180,
      quality: 40,
      frameRate: 10,
      bitrate: 256,
      govLength: 20,
      profile: "Main",
    },
  }
  position: Position = { pan: 0, tilt: 0, zoom: 0 }
  home: Position = { pan: 0, tilt: 0, zoom: 0 }
  /** Null: it stands still. */
  speed: Position | null = null
  movingUntilMs = 0
  readonly presets: Array<Preset> = []
  presetCount = 0
  readonly events = new Events()
  readonly tours: Array<Tour> = []
  tourCount = 0
  readonly limits: Limits = { panTilt: [-0.5, 0.5], zoom: [0, 0.5] }
  readonly picture = { Brightness: 50, ColorSaturation: 50, Contrast: 50, Sharpness: 50, IrCutFilter: "AUTO" }
  readonly configuration = new Configuration()
  clockMode = "Manual"
  timeZone = "UTC0"
  /** Operations that were carried out, in order. */
  readonly done: Array<string> = []

  /** When requests came, of the last second. */
  #requests: Array<number> = []

  constructor(options: DeviceOptions) {
    this.options = options
    this.quirks = { ...noQuirks, ...options.quirks }
  }

  /** Whether this request, which is counted, is answered with 503. */
  overloaded(): boolean {
    const { busy, requestsPerSecond } = this.quirks
    const now = performance.now()
    this.#requests = this.#requests.filter((at) => now - at < 1000)
    this.#requests.push(now)
    return busy || (requestsPerSecond !== null && this.#requests.length > requestsPerSecond)
  }

  /** By the device's clock. */
  nowMs(): number {
    return Date.now() + this.quirks.clockSkewMs
  }

  /** A move whose time is over has ended. */
  settle(): void {
    if (this.speed !== null && this.nowMs() >= this.movingUntilMs) this.halt()
  }

  halt(): void {
    this.speed = null
  }
}
