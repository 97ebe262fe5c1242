/** The backchannel, spoken to GStreamer's ONVIF server: a camera that shares no code with ours. */
import { openBackchannel } from "#media/backchannel/client.ts"
import { committedFolder } from "#test/camera-simulator/footage.ts"
import { expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { startGstCameras } from "../peers/gst.ts"
import { missing } from "../peers/installed.ts"
import { speak } from "./talker.ts"

it.live.skipIf(missing("gstreamer").length > 0)(
  "GStreamer's RTSPOnvifServer hears every packet, with Digest",
  () =>
    Effect.gen(function*() {
      const cameras = yield* Effect.acquireRelease(
        Effect.promise(() =>
          startGstCameras({
            streams: { main: [join(committedFolder, "main-640x360-25.h264"), join(committedFolder, "tone-8000.pcma")] },
            login: { scheme: "digest", username: "admin", password: "swordfish" },
            onvif: true,
          })
        ),
        (running) => Effect.promise(() => running.stop()),
      )
      const channel = yield* openBackchannel({
        url: cameras.url("main"),
        username: "admin",
        password: Redacted.make("swordfish"),
        transport: "tcp",
        requestTimeoutMs: 30_000,
        drainEveryMs: 0,
      })
      expect(channel.codec).toBe("pcmu")
      const tone = readFileSync(join(committedFolder, "tone-8000.pcmu"))
      yield* speak(100, (i) => {
        const packet = Buffer.concat([Buffer.alloc(12), tone.subarray(i * 160, i * 160 + 160)])
        packet[0] = 0x80
        packet.writeUInt16BE(i, 2)
        packet.writeUInt32BE(i * 160, 4)
        channel.hear(packet, 0, packet.length)
      })
      let heard = 0
      for (let i = 0; i < 100 && (heard < 100 || heard < channel.statistics().sentPackets); i++) {
        yield* Effect.sleep(100)
        heard = (yield* Effect.promise(() => cameras.report()))["/main/0"]!.heard
      }
      const { sentPackets } = channel.statistics()
      expect(sentPackets).toBeGreaterThanOrEqual(100)
      expect(heard).toBe(sentPackets)
    }),
  120_000,
)
