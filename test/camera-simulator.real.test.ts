/** The simulated camera and the independent ones, read by ffmpeg and GStreamer: what they send is what they say. */
import { execFile } from "node:child_process"
import { mkdtemp, readFile, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { promisify } from "node:util"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { Camera } from "./camera-simulator/camera.ts"
import { committedFolder } from "./camera-simulator/footage.ts"
import { coverage, framesOf, framesOfMp4 } from "./camera-simulator/frames.ts"
import { type Simulator, startSimulator } from "./camera-simulator/simulator.ts"
import { startGstCameras } from "./peers/gst.ts"
import { missing } from "./peers/installed.ts"
import { startVlcCamera } from "./peers/vlc.ts"

const run = promisify(execFile)
const login = "admin:swordfish@"

let folder = ""
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "nightjar-simulator-"))
})
afterAll(async () => {
  await rm(folder, { recursive: true, force: true })
})

/** Copies some seconds into a file with ffmpeg; answers what ffmpeg complained of. */
const copy = async (url: string, file: string, transport: "tcp" | "udp", seconds: number): Promise<string> => {
  const input = ["-rtsp_transport", transport, "-i", url.replace("rtsp://", `rtsp://${login}`)]
  const { stderr } = await run(
    "ffmpeg",
    [
      ["-hide_banner", "-loglevel", "error", "-nostdin", "-y", ...input],
      ["-t", String(seconds), "-map", "0", "-c", "copy", join(folder, file)],
    ].flat(),
  )
  return stderr
}

const streams = async (file: string): Promise<ReadonlyArray<Readonly<Record<string, unknown>>>> => {
  const { stdout } = await run("ffprobe", ["-loglevel", "error", "-show_streams", "-of", "json", join(folder, file)])
  return (JSON.parse(stdout) as { streams: ReadonlyArray<Readonly<Record<string, unknown>>> }).streams
}

/** What the decoder complains of; times are made even, for they are not what it is asked about. */
const decodeErrors = async (file: string): Promise<string> => {
  const even = ["-vf", "setpts=N/25/TB"]
  return (await run("ffmpeg", ["-loglevel", "error", "-nostdin", "-i", join(folder, file), ...even, "-f", "null", "-"]))
    .stderr
}

describe.skipIf(missing("ffmpeg").length > 0)("ffmpeg reads the simulated camera", () => {
  let simulator: Simulator
  const camera = (index: number): Camera => simulator.cameras[index]!
  beforeAll(async () => {
    const profiles = (video: string, audio: "aac" | "pcmu" | "pcma" | "opus") => [{ name: "main", video, audio }]
    simulator = await startSimulator({
      defaults: { startAtKey: true },
      cameras: [
        { profiles: profiles("main-640x360-25.h264", "aac"), auth: "digest" },
        { profiles: profiles("main-640x360-25.h264", "pcmu"), auth: "basic", pacing: "spread", parameterSets: "sdp" },
        { profiles: profiles("main-640x360-25.h265", "pcma"), auth: "digest", parameterSets: "sdp" },
        { profiles: profiles("wide-800x352-25.h264", "opus"), auth: "digest-both" },
      ],
    })
  })
  afterAll(async () => {
    await simulator.close()
  })

  it.each(
    [
      [0, "tcp", "h264", "aac"],
      [0, "udp", "h264", "aac"],
      [1, "tcp", "h264", "pcm_mulaw"],
      [2, "tcp", "hevc", "pcm_alaw"],
      [2, "udp", "hevc", "pcm_alaw"],
      [3, "tcp", "h264", "opus"],
    ] as const,
  )(
    "camera %i by %s: %s and %s, every frame once, decoded without a complaint",
    async (index, transport, video, audio) => {
      const file = `${index}-${transport}.mkv`
      await copy(camera(index).url("main"), file, transport, 4)
      const found = await streams(file)
      expect(found.map((stream) => stream["codec_name"])).toEqual([video, audio])
      const seen = coverage(framesOf(await readFile(join(folder, file))))!
      const session = camera(index).report().sessions.at(-1)!
      expect(seen).toMatchObject({ missing: [], repeated: [] })
      expect(seen.count).toBeGreaterThan(40)
      expect(seen.first).toBe(session.video?.firstKey)
      expect(seen.last).toBeLessThanOrEqual(session.video!.last!)
      expect(await decodeErrors(file)).toBe("")
    },
  )

  it("decodes B-frames into even steps, over a wrap of the timestamps", async () => {
    const profiles = [{ name: "main", video: "bframes-320x180-25.h264", audio: "opus" as const }]
    const own = await startSimulator({ cameras: [{ profiles, startAtKey: true, wrapAfterSeconds: 4 }] })
    try {
      const url = own.cameras[0]!.url("main").replace("rtsp://", `rtsp://${login}`)
      const { stderr, stdout } = await run(
        "ffmpeg",
        [
          ["-loglevel", "error", "-nostdin", "-rtsp_transport", "tcp", "-i", url, "-frames:v", "125", "-map", "0:v"],
          ["-fps_mode", "passthrough", "-enc_time_base", "1:90000", "-f", "framecrc", "-"],
        ].flat(),
      )
      expect(stderr).toBe("")
      const shown = stdout.split("\n").filter((line) => /^\d/.test(line)).map((line) => Number(line.split(",")[2]))
      expect(shown.length).toBe(125)
      // ffmpeg guesses the times of the first pictures, before it knows how many are reordered; sender reports round by a tick.
      const steady = shown.slice(4)
      expect(new Set(steady.slice(1).map((time, i) => Math.round((time - steady[i]!) / 10) * 10))).toEqual(
        new Set([3600]),
      )
    } finally {
      await own.close()
    }
  })

  it("counts the samples of MP4, whole and in fragments, as ffprobe does", async () => {
    await copy(camera(0).url("main"), "source.mkv", "tcp", 4)
    for (
      const [file, flags] of [["whole.mp4", "+faststart"], ["fragments.mp4", "+frag_keyframe+empty_moov"]] as const
    ) {
      const source = join(folder, "source.mkv")
      await run("ffmpeg", ["-loglevel", "error", "-i", source, "-c", "copy", "-movflags", flags, join(folder, file)])
      const marks = framesOfMp4(await readFile(join(folder, file)))
      const count = [
        "-loglevel",
        "error",
        "-select_streams",
        "v",
        "-count_packets",
        "-show_entries",
        "stream=nb_read_packets",
      ]
      const { stdout } = await run("ffprobe", [...count, "-of", "csv=p=0", join(folder, file)])
      expect(marks.length).toBe(Number(stdout.trim()))
      expect(coverage(marks)?.missing).toEqual([])
    }
  })
})

describe.skipIf(missing("gstreamer").length > 0)("GStreamer reads the simulated camera", () => {
  it.each(["h264", "h265"] as const)("%s by TCP, and sees every frame", async (codec) => {
    const simulator = await startSimulator({
      cameras: [{ profiles: [{ name: "main", video: `main-640x360-25.${codec}`, audio: "none" }] }],
    })
    try {
      const camera = simulator.cameras[0]!
      const file = join(folder, `gst.${codec}`)
      await run("gst-launch-1.0", [
        ..."-q -e rtspsrc user-id=admin user-pw=swordfish protocols=tcp".split(" "),
        `location=${camera.url("main")}`,
        ..."! identity eos-after=260 ! ".split(" ").filter(Boolean),
        ...`rtp${codec}depay ! ${codec}parse ! filesink location=${file}`.split(" "),
      ], { timeout: 60_000 })
      const seen = coverage(framesOf(await readFile(file)))!
      const session = camera.report().sessions.at(-1)!
      expect(seen).toMatchObject({ missing: [], repeated: [] })
      expect(seen.count).toBeGreaterThan(20)
      expect(seen.first).toBeGreaterThanOrEqual(session.video!.first!)
    } finally {
      await simulator.close()
    }
  })
})

describe.skipIf(missing("ffmpeg", "gstRtspServer").length > 0)("independent cameras", () => {
  const file = (name: string): string => join(committedFolder, name)

  it("gst-rtsp-server: marked frames, Digest login, counts at the end", async () => {
    const cameras = await startGstCameras({
      streams: {
        cam: [file("main-640x360-25.h264"), file("tone-16000.aac")],
        hevc: [file("main-640x360-25.h265"), file("tone-8000.pcma")],
      },
      login: { scheme: "digest", username: "admin", password: "swordfish" },
    })
    const seen = []
    try {
      for (const name of ["cam", "hevc"]) {
        await copy(cameras.url(name), `${name}.mkv`, "tcp", 3)
        seen.push(coverage(framesOf(await readFile(join(folder, `${name}.mkv`))))!)
      }
    } finally {
      const counts = await cameras.stop()
      for (const [i, path] of ["/cam/0", "/hevc/0"].entries()) {
        expect(seen[i]).toMatchObject({ missing: [], repeated: [] })
        expect(seen[i]!.count).toBeGreaterThan(60)
        expect(counts[path]!.frames).toBeGreaterThanOrEqual(seen[i]!.count)
        expect(counts[path]!.last).toBeGreaterThanOrEqual(seen[i]!.last)
      }
    }
  })

  it("gst-rtsp-server fed by ffmpeg plays H.264 and H.265", async () => {
    const cameras = await startGstCameras({
      streams: { cam: [file("main-640x360-25.h264")], hevc: [file("main-640x360-25.h265")] },
      fedBy: "ffmpeg",
    })
    try {
      for (const [name, codec] of [["cam", "h264"], ["hevc", "hevc"]] as const) {
        await copy(cameras.url(name), `fed-${name}.mkv`, "tcp", 3)
        expect((await streams(`fed-${name}.mkv`)).map((stream) => stream["codec_name"])).toEqual([codec])
        expect(await decodeErrors(`fed-${name}.mkv`)).toBe("")
      }
    } finally {
      await cameras.stop()
    }
  })
})

describe.skipIf(missing("ffmpeg", "vlc").length > 0)("VLC as a camera", () => {
  it("plays H.264 by UDP", async () => {
    const vlc = await startVlcCamera(join(committedFolder, "main-640x360-25.h264"))
    try {
      await copy(vlc.url, "vlc.mkv", "udp", 3)
      expect((await streams("vlc.mkv")).map((stream) => stream["codec_name"])).toEqual(["h264"])
    } finally {
      await vlc.stop()
    }
  })
})
