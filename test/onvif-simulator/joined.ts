/**
 * A whole simulated camera: the device that is asked, and the streams that play, so that changing an encoder changes the stream.
 *
 * Invariants
 * 1. A changed encoder plays footage of its own size, rate, bit rate and group length, encoded for it by ffmpeg; the stream goes over to
 *    it at a key frame, some time after the device has answered, as with real devices.
 * 2. Streams keep their codec: an encoder of another one changes nothing.
 */
import { execFile } from "node:child_process"
import { mkdtemp, rename, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { startSimulator } from "../camera-simulator/simulator.ts"
import { type SimulatedDevice, startDevice } from "./device.ts"
import type { DeviceOptions, Encoder } from "./options.ts"

const run = promisify(execFile)

/** Two seconds of a moving test picture. */
const encode = async (folder: string, { bitrate, frameRate, govLength, height, width }: Encoder): Promise<string> => {
  const file = join(folder, `made${bitrate}-g${govLength}-${width}x${height}-${frameRate}.h264`)
  const source = `testsrc2=size=${width}x${height}:rate=${frameRate}:duration=2,format=yuv420p`
  const gop = `-g ${govLength} -keyint_min ${govLength} -sc_threshold 0`
  const rate = `-b:v ${bitrate}k -maxrate ${bitrate}k -bufsize ${bitrate}k`
  await run("ffmpeg", [
    ..."-hide_banner -loglevel error -y -f lavfi -i".split(" "),
    source,
    ...`-c:v libx264 -profile:v main -preset ultrafast -bf 0 ${gop} ${rate}`.split(" "),
    ..."-bsf:v filter_units=remove_types=6 -f h264".split(" "),
    `${file}.part`,
  ])
  await rename(`${file}.part`, file)
  return file
}

export interface JoinedCamera {
  readonly device: SimulatedDevice
  /** Once the streams play what the encoders say. */
  readonly settled: () => Promise<void>
  readonly close: () => Promise<void>
}

export const startJoined = async (options: Partial<DeviceOptions> = {}): Promise<JoinedCamera> => {
  const folder = await mkdtemp(join(tmpdir(), "nightjar-footage-"))
  const streams = await startSimulator({ cameras: 1 })
  const [camera] = streams.cameras
  let last: Promise<void> = Promise.resolve()
  const device = await startDevice({
    streams: { main: camera!.url("main"), sub: camera!.url("sub") },
    onEncoder: (profile, encoder) => {
      if (encoder.encoding !== "H264") return
      const now = { ...encoder }
      last = last.then(async () => camera!.show(profile, await encode(folder, now)))
    },
    ...options,
  })
  return {
    device,
    settled: () => last,
    close: async () => {
      await last
      await device.close()
      await streams.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}
