/**
 * Starts simulated cameras in this process, with a control port.
 *
 * ```ts
 * const simulator = await startSimulator({ cameras: 2 })
 * simulator.cameras[0].url("main")          // rtsp://127.0.0.1:PORT/cam/0
 * await simulator.cameras[0].cut(5)         // faults are methods; over HTTP they are POST /cameras/0/cut
 * simulator.cameras[0].report().sessions    // what was sent, exactly
 * await simulator.close()
 * ```
 */
import { Camera } from "./camera.ts"
import { type Control, startControl } from "./control.ts"
import { cameraDefaults, type SimulatorOptions } from "./options.ts"

export interface Simulator {
  readonly cameras: ReadonlyArray<Camera>
  /** `http://127.0.0.1:PORT`. */
  readonly controlUrl: string
  readonly close: () => Promise<void>
}

/** Repeatable numbers in [0, 1) (mulberry32). */
const numbers = (seed: number): () => number => {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b_79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
}

export const startSimulator = async (options: SimulatorOptions): Promise<Simulator> => {
  const host = options.host ?? "127.0.0.1"
  const wanted = typeof options.cameras === "number" ?
    Array.from({ length: options.cameras }, () => ({})) :
    options.cameras
  const port = options.port ?? 0
  const cameras = wanted.map((own, index) =>
    new Camera(
      { ...cameraDefaults, name: `camera ${index}`, ...options.defaults, ...own },
      index,
      host,
      port === 0 ? 0 : port + index,
      numbers((options.seed ?? 1) + index * 7919),
    )
  )
  const opened: Array<Camera> = []
  let control: Control | null = null
  const close = async (): Promise<void> => {
    await control?.close()
    await Promise.all(opened.map((camera) => camera.close()))
  }
  try {
    for (const camera of cameras) {
      await camera.open()
      opened.push(camera)
    }
    control = await startControl(cameras, host, options.controlPort ?? 0)
  } catch (error) {
    await close()
    throw error
  }
  return { cameras, controlUrl: control.url, close }
}
