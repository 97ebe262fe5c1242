/** A stream of 4 Mbit/s, made up: 25 pictures a second in groups of 50, the key picture of 100 kB. */
import { makeStreamHub, type StreamHub } from "#media/capture/hub.ts"
import { LiveStreams } from "#media/hub.ts"
import type { AccessUnit } from "#schema/media.ts"
import { Effect, Layer } from "effect"
import { camera } from "../media/access-units.ts"

const pictureMs = 40
const groupPictures = 50
const keyBytes = 100_000
const otherBytes = Math.round((4_000_000 / 8 * groupPictures * pictureMs / 1000 - keyBytes) / (groupPictures - 1))

const slice = (type: number, bytes: number): Uint8Array => {
  const data = Buffer.alloc(4 + bytes, 0xa5)
  data.writeUInt32BE(bytes, 0)
  data[4] = type
  return data
}
const key = slice(0x65, keyBytes)
const other = slice(0x41, otherBytes)

export const { parameters } = camera({ video: "main-640x360-25.h264", seconds: 1, startMs: 0 })

/** Tells each picture in its time. */
export const playStream = (onUnit: (unit: AccessUnit) => void): void => {
  let picture = 0
  setInterval(() => {
    const isKey = picture % groupPictures === 0
    onUnit({
      track: "video",
      data: isKey ? key : other,
      key: isKey,
      ticks: picture * 3600,
      durationTicks: 0,
      arrivalMs: Date.now(),
      senderMs: null,
    })
    picture++
  }, pictureMs)
}

/** The stream at a hub, whatever stream is asked for. */
export const playedStreams = (): Layer.Layer<LiveStreams> => {
  const hub: StreamHub = makeStreamHub(() => {})
  hub.parameters(parameters)
  playStream(hub.unit)
  return Layer.succeed(
    LiveStreams,
    LiveStreams.of({
      parameters: () => hub.newestParameters(),
      watch: (_id, bounds) =>
        Effect.map(
          Effect.acquireRelease(Effect.sync(() => hub.join(bounds)), ({ leave }) => Effect.sync(leave)),
          ({ view }) => view,
        ),
    }),
  )
}
