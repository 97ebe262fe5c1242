/**
 * A JPEG of the first picture of an MP4 file, by the machine's ffmpeg where it has one. Nightjar itself decodes no pictures.
 *
 * Invariants
 * 1. It ends within {@link longestMs}, by the process's death if need be, and reads {@link largestBytes} at most. No shell, no files.
 */
import { Stills } from "#actors/protocol/notification-rules.ts"
import { Effect, Layer } from "effect"
import { type ChildProcess, spawn } from "node:child_process"

const longestMs = 5_000
const largestBytes = 5 << 20

const conversion = [
  "-hide_banner",
  "-loglevel",
  "error",
  "-i",
  "pipe:0",
  "-frames:v",
  "1",
  "-f",
  "mjpeg",
  "-q:v",
  "4",
  "pipe:1",
]

const convert = (file: Uint8Array): Effect.Effect<Uint8Array | null> =>
  Effect.callback<Uint8Array | null>((resume) => {
    const child: ChildProcess = spawn("ffmpeg", conversion, {
      stdio: ["pipe", "pipe", "ignore"],
      env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
    })
    const chunks: Array<Buffer> = []
    let size = 0
    const none = () => resume(Effect.succeed(null))
    child.on("error", none)
    // It may leave before it has read everything.
    child.stdin?.on("error", () => {})
    child.stdout?.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size > largestBytes) child.kill("SIGKILL")
      else chunks.push(chunk)
    })
    child.on("close", (code) => {
      const jpeg = Buffer.concat(chunks)
      // JPEG: begins with FF D8 (ITU-T T.81, B.1.1.3).
      if (code === 0 && jpeg[0] === 0xff && jpeg[1] === 0xd8) resume(Effect.succeed(jpeg))
      else none()
    })
    child.stdin?.end(file)
    return Effect.sync(() => child.kill("SIGKILL"))
  }).pipe(Effect.timeoutOrElse({ duration: longestMs, orElse: () => Effect.succeed(null) }))

export const layer = Layer.succeed(Stills, { jpeg: convert })
