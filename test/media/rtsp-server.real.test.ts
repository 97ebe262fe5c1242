/** A simulated camera, captured, and read from the RTSP server by ffmpeg and GStreamer. */
import { RecorderSupervisor } from "#media/recorder.ts"
import { RtspServer } from "#media/rtsp-server.ts"
import { layer } from "#media/rtsp-server/live.ts"
import { Storage, type StorageError } from "#media/storage.ts"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted, type Scope } from "effect"
import { execFile } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { connect, type Socket } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { framesOf } from "../camera-simulator/frames.ts"
import type { CameraOptions } from "../camera-simulator/options.ts"
import { startSimulator } from "../camera-simulator/simulator.ts"
import { readFootage } from "../harness/footage.ts"
import { missing } from "../peers/installed.ts"
import { judge } from "./capture-checker.ts"
import { assignment, recordingId, streamId } from "./capture-harness.ts"
import { cameraAt, nodeOf } from "./capture-node.ts"
import { gateOf, token, until } from "./rtsp-server-fixtures.ts"

const run = promisify(execFile)
const account = { username: "reader", password: Redacted.make("hunter2hunter2") }

interface Node {
  readonly root: string
  readonly port: number
  readonly server: RtspServer["Service"]
  readonly storage: Storage["Service"]
  readonly supervisor: RecorderSupervisor["Service"]
}

const withNode = (
  camera: Partial<CameraOptions>,
  use: (node: Node) => Effect.Effect<void, StorageError, Scope.Scope>,
) =>
  Effect.scoped(Effect.gen(function*() {
    const root = yield* Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-rtsp-"))),
      (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
    )
    const simulator = yield* Effect.acquireRelease(
      Effect.promise(() => startSimulator({ cameras: [camera] })),
      (running) => Effect.promise(() => running.close()),
    )
    const rtsp = layer({ host: "127.0.0.1", port: 0, account }).pipe(Layer.provide(gateOf(recordingId)))
    yield* Effect.gen(function*() {
      const supervisor = yield* RecorderSupervisor
      const server = yield* RtspServer
      yield* supervisor.assign(cameraAt(simulator.cameras[0]!.url("main")))
      yield* until("a port", () => server.port() !== null)
      yield* use({ root, server, supervisor, storage: yield* Storage, port: server.port()! })
    }).pipe(Effect.provide(rtsp.pipe(Layer.provideMerge(nodeOf(root)))))
  }))

/** Decodes; anything that ffmpeg complains of fails. */
const decode = (transport: "tcp" | "udp", url: string, frames: number) =>
  Effect.promise(async () => {
    const input = ["-v", "error", "-nostdin", "-rtsp_transport", transport, "-i", url]
    const { stderr } = await run("ffmpeg", [...input, "-frames:v", String(frames), "-f", "null", "-"], {
      timeout: 40_000,
    })
    expect(stderr).toBe("")
  })

const probe = (url: string) =>
  Effect.promise(async () => {
    const entries = "stream=codec_name,codec_type,width,height,sample_rate"
    const { stdout } = await run("ffprobe", [
      "-v",
      "error",
      "-rtsp_transport",
      "tcp",
      "-show_entries",
      entries,
      "-of",
      "json",
      url,
    ], { timeout: 40_000 })
    return (JSON.parse(stdout) as { streams: ReadonlyArray<Record<string, unknown>> }).streams
  })

/**
 * Whether every sink had its end, and what was complained of. rtspsrc may complain on its way out, when it has hung up already and is told
 * to pause.
 */
const launched = (pipeline: string) =>
  Effect.promise(async () => {
    const ended = (stdout: string) => stdout.includes("Got EOS from element")
    try {
      const { stderr, stdout } = await run("gst-launch-1.0", pipeline.split(" "), { timeout: 40_000 })
      return { ended: ended(stdout), said: stderr }
    } catch (error) {
      return { ended: ended((error as { readonly stdout?: string }).stdout ?? ""), said: String(error) }
    }
  })

/** What rtspsrc finds and nobody takes may end it before the picture is taken. */
const sound = "source. ! application/x-rtp,media=audio ! fakesink"
const picture = "source. ! application/x-rtp,media=video"
const live = (source: string, decoder: string) =>
  `${source} name=source latency=0 ${sound} num-buffers=10 ${picture} ! ${decoder} ! fakesink num-buffers=50 sync=false`

const gst = (pipeline: string) => Effect.map(launched(pipeline), ({ ended, said }) => expect(ended, said).toBe(true))

describe.skipIf(missing("ffmpeg", "gstreamer").length > 0)("players", () => {
  it.live(
    "H.264 with AAC: ffmpeg by TCP, UDP and Digest, GStreamer by TCP and UDP",
    () =>
      withNode({}, ({ port, server }) =>
        Effect.gen(function*() {
          const address = `127.0.0.1:${port}/live/${streamId}`
          const url = `rtsp://${address}?token=${token}`
          const [video, audio] = yield* probe(url)
          expect(video).toMatchObject({ codec_name: "h264", width: 640, height: 360 })
          expect(audio).toMatchObject({ codec_name: "aac", sample_rate: "16000" })
          yield* decode("tcp", url, 50)
          yield* decode("udp", url, 50)
          yield* decode("tcp", `rtsp://reader:hunter2hunter2@${address}`, 25)
          const depay = "rtph264depay ! h264parse ! avdec_h264"
          yield* gst(live(`rtspsrc location=${url} protocols=tcp`, depay))
          yield* gst(live(`rtspsrc location=${url} protocols=udp`, depay))
          yield* until("all to have left", () => server.sessions().length === 0)
          expect(server.streams()[0]).toMatchObject({ streamId, ready: true, tracks: ["h264", "aac"] })
        })),
    120_000,
  )

  it.live(
    "H.265 with G.711: ffmpeg and GStreamer",
    () =>
      withNode({ profiles: [{ name: "main", video: "main-640x360-25.h265", audio: "pcma" }] }, ({ port }) =>
        Effect.gen(function*() {
          const url = `rtsp://127.0.0.1:${port}/live/${streamId}?token=${token}`
          const [video, audio] = yield* probe(url)
          expect(video).toMatchObject({ codec_name: "hevc", width: 640, height: 360 })
          expect(audio).toMatchObject({ codec_name: "pcm_alaw" })
          yield* decode("tcp", url, 50)
          yield* gst(live(`rtspsrc location=${url} protocols=tcp`, "rtph265depay ! h265parse ! avdec_h265"))
        })),
    120_000,
  )
})

/**
 * rtspsrc 1.22 works out from Range when it has all (`on-npt-stop`), and hands on nothing of what it reads later. With its latency of two
 * seconds that is late enough; in ONVIF's mode it finds no end with a latency, and on a machine that stalls needs some tries without.
 */
const mostTries = 6

describe.skipIf(missing("ffmpeg", "gstreamer").length > 0)("a recorded interval", () => {
  it.live(
    "ffmpeg and GStreamer, with and without ONVIF's ways, get exactly its frames",
    () =>
      withNode({ startAtKey: true }, ({ port, root, storage, supervisor }) =>
        Effect.gen(function*() {
          yield* until("a recording", () => supervisor.status(streamId)?.recordingState === "recording")
          const stored = () =>
            storage.files(recordingId, { start: 0, end: Number.MAX_SAFE_INTEGER })
              .flatMap((file) => readFootage(storage.path(file)).frames)
          yield* until("seven seconds", () => {
            const frames = stored()
            return frames.length > 0 && frames.at(-1)!.wallMs - frames[0]!.wallMs > 7_000
          })
          const all = stored()
          const start = Math.round(all[0]!.wallMs) + 2_500
          const end = start + 2_700
          // The simulated camera begins with a key picture and makes one every two seconds.
          const wanted = all.filter(({ wallMs }, index) => index >= 50 && wallMs < end).map(({ frame }) => frame)
          expect(wanted.length).toBeGreaterThan(60)
          const interval = `start=${new Date(start).toISOString()}&end=${new Date(end).toISOString()}`
          const url = `rtsp://127.0.0.1:${port}/recording/${
            assignment().recording!.recordingToken
          }?${interval}&token=${token}`
          const into = (name: string) => join(root, `${name}.h264`)
          const framesIn = (name: string) => framesOf(readFileSync(into(name))).map(({ frame }) => frame)
          const byFfmpeg = (transport: "tcp" | "udp") =>
            Effect.promise(async () => {
              const name = `ffmpeg-${transport}`
              const input = ["-v", "error", "-nostdin", "-rtsp_transport", transport, "-i", url]
              await run("ffmpeg", [...input, "-an", "-c", "copy", "-f", "h264", into(name)], { timeout: 60_000 })
              expect(framesIn(name), name).toEqual(wanted)
            })
          const depay = "rtph264depay ! h264parse ! video/x-h264,stream-format=byte-stream,alignment=au"
          const byGst = (name: string, all: ReadonlyArray<number>, most: number, ...way: ReadonlyArray<string>) =>
            Effect.gen(function*() {
              const source = ["rtspsrc", "name=source", `location=${url}`, "protocols=tcp", ...way].join(" ")
              for (let tries = 1; tries <= most; tries++) {
                const { ended } = yield* launched(
                  `${source} ${sound} ${picture} ! ${depay} ! filesink location=${into(name)}`,
                )
                const got = framesIn(name)
                expect(got, name).toEqual(all.slice(0, got.length))
                if (got.length === all.length && ended) return
              }
              expect.fail(`${name}: not whole in ${most} ${most === 1 ? "try" : "tries"}`)
            })
          // In ONVIF's mode rtspsrc 1.22 gives its first packet no time, and its jitter buffer then drops that picture.
          const later = wanted.slice(1)
          yield* Effect.all([
            byFfmpeg("tcp"),
            byFfmpeg("udp"),
            byGst("plain", wanted, 1, "latency=2000"),
            byGst("onvif", later, mostTries, "latency=0", "onvif-mode=true"),
            byGst("fast", later, mostTries, "latency=0", "onvif-mode=true", "onvif-rate-control=false"),
          ], { concurrency: "unbounded" })
        })),
    120_000,
  )
})

describe("a recording while the server is harmed", () => {
  it.live(
    "half-open connections, a reader of a byte at a time and garbage cost it nothing",
    () =>
      withNode({ startAtKey: true }, ({ port, server, storage, supervisor }) =>
        Effect.gen(function*() {
          yield* until("a recording", () => supervisor.status(streamId)?.recordingState === "recording")
          const sockets: Array<Socket> = []
          yield* Effect.addFinalizer(() => Effect.sync(() => sockets.forEach((socket) => socket.destroy())))
          const dial = (first: string | Buffer): Socket => {
            const socket = connect(port, "127.0.0.1")
            socket.on("error", () => socket.destroy())
            socket.write(first)
            sockets.push(socket)
            return socket
          }
          const from = Date.now()
          for (let i = 0; i < 500; i++) dial("DESCRIBE rtsp://")
          for (let i = 0; i < 50; i++) dial(Buffer.alloc(1000, i)).resume()
          const url = `rtsp://127.0.0.1:${port}/live/${streamId}`
          const slow = dial(
            `SETUP ${url}/trackID=0?token=${token} RTSP/1.0\r\nCSeq: 1\r\nTransport: RTP/AVP/TCP;interleaved=0-1\r\n\r\n`,
          )
          yield* until("a session", () => server.sessions().length === 1)
          slow.write(`PLAY ${url} RTSP/1.0\r\nCSeq: 2\r\nSession: ${server.sessions()[0]!.id}\r\n\r\n`)
          yield* until("a slow reader", () => server.sessions()[0]?.state === "playing")
          for (let i = 0; i < 80; i++) {
            slow.pause()
            slow.read(1)
            yield* Effect.sleep(100)
          }
          const to = Date.now() - 3_000
          const files = storage.files(recordingId, { start: 0, end: Number.MAX_SAFE_INTEGER })
          const spans = (yield* Effect.forEach(files, (file) => storage.index(file))).flat()
          const { faults, recordedUntil } = judge(spans, supervisor.gaps(recordingId, { start: 0, end: to }), from, to)
          expect(faults).toEqual([])
          expect(recordedUntil).toBeGreaterThanOrEqual(to)
          expect(supervisor.gaps(recordingId, { start: from, end: to })).toEqual([])
        })),
    120_000,
  )
})
