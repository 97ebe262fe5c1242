/**
 * Independent cameras, recorded and replayed without losing a picture: `npm run prove:independent -- [--seconds 600]`.
 *
 * gst-rtsp-server with Digest login: 1080p H.264 at 4 Mbit/s with AAC, and 1080p H.265 with G.711, at the same time. Replay is read by
 * ffprobe, H.264 by hls.js in Chromium too. The footage is encoded once and looped.
 */
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import * as path from "node:path"
import { parseArgs } from "node:util"
import { benchFolder, committedFolder } from "../camera-simulator/footage.ts"
import { proveIndependent } from "../harness/independent.ts"
import { prove } from "../harness/report.ts"
import { missing } from "../peers/installed.ts"

const { values } = parseArgs({ options: { seconds: { type: "string", default: "600" } } })

const footage = (codec: string): string => path.join(benchFolder, `main-1920x1080-25.${codec}`)

await prove("prove:independent", async (report) => {
  const absent = missing("gstRtspServer", "ffmpeg")
  if (absent.length > 0) throw new Error(`needs ${absent.join(" and ")}`)
  if (!["h264", "h265"].every((codec) => existsSync(footage(codec)))) {
    report.say("making the footage (once)")
    const script = path.join(import.meta.dirname, "..", "fixtures", "make-media.sh")
    const made = spawnSync(script, ["bench"], { stdio: ["ignore", "ignore", "inherit"] })
    if (made.status !== 0) throw new Error("the footage cannot be made")
  }
  await proveIndependent(report, {
    seconds: Number(values.seconds),
    streams: {
      "h264-aac": [footage("h264"), path.join(committedFolder, "tone-16000.aac")],
      "h265-g711": [footage("h265"), path.join(committedFolder, "tone-8000.pcmu")],
    },
    browser: ["h264-aac"],
  })
})
