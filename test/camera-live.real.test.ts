/** A whole node: live HLS as media-path tells it, for hls.js in Chromium, ffprobe and GStreamer, for as long as the session. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile, execFileSync, spawn } from "node:child_process"
import { existsSync } from "node:fs"
import { promisify } from "node:util"
import { startSimulator } from "./camera-simulator/simulator.ts"
import { readLive } from "./harness/live-page.ts"
import { adminPassword, wholeNode } from "./harness/whole-node.ts"
import { missing } from "./peers/installed.ts"

const run = promisify(execFile)
const lacking = [...missing("ffmpeg", "gstreamer"), ...existsSync("/usr/bin/chromium") ? [] : ["chromium"]]

const call = (base: string, method: string, path: string, token: string, body?: unknown) =>
  Effect.promise(async () => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { "content-type": "application/json", ...(token === "" ? {} : { authorization: `Bearer ${token}` }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, headers: response.headers, text: await response.text() }
  })
const ask = (...of: Parameters<typeof call>) =>
  Effect.map(call(...of), ({ status, text }) => {
    assert.isBelow(status, 300, `${of[1]} ${of[2]}: ${text}`)
    return (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>
  })

interface Named {
  readonly id: string
}
interface Made {
  readonly channels: ReadonlyArray<{ readonly streams: ReadonlyArray<Named> }>
}

const jpegSize = (jpeg: Uint8Array) =>
  execFileSync("ffprobe", "-v error -show_entries stream=codec_name,width,height -of csv=p=0 pipe:0".split(" "), {
    input: jpeg,
  })
    .toString().trim()

const probing = [
  ..."-v error -read_intervals %+3 -count_packets -show_entries stream=codec_name,width,nb_read_packets".split(" "),
  ..."-of csv=p=0".split(" "),
]

/** Pictures that come out of hlsdemux; ends at `enough`, or with GStreamer. */
const gstreamer = (url: string, enough: number) =>
  Effect.callback<number>((resume) => {
    const pipeline = `souphttpsrc location=${url} ! hlsdemux ! qtdemux ! h264parse ! fakesink silent=false`.split(" ")
    const child = spawn("gst-launch-1.0", ["-v", ...pipeline], { stdio: ["ignore", "pipe", "ignore"] })
    let pictures = 0
    child.stdout.on("data", (text: Buffer) => {
      pictures += text.toString().split("chain   ***").length - 1
      if (pictures >= enough) child.kill("SIGKILL")
    })
    child.on("close", () => resume(Effect.succeed(pictures)))
    return Effect.sync(() => child.kill("SIGKILL"))
  }).pipe(Effect.timeoutOrElse({ duration: 90_000, orElse: () => Effect.die(new Error("GStreamer shows nothing")) }))

/** A player goes from one stream to the other where both have the same tracks. */
const profiles = [
  { name: "main", video: "main-640x360-25.h264", audio: "aac" },
  { name: "sub", video: "sub-320x180-10.h264", audio: "aac" },
] as const

const consecutive = (frames: ReadonlyArray<number>) =>
  frames.flatMap((frame, i) => i > 0 && frame !== frames[i - 1]! + 1 ? [`${frames[i - 1]} → ${frame}`] : [])

it.live.skipIf(lacking.length > 0)(
  `players watch a stream live by HLS${lacking.length > 0 ? ` (needs ${lacking.join(", ")})` : ""}`,
  () =>
    Effect.gen(function*() {
      const simulator = yield* Effect.acquireRelease(
        Effect.promise(() => startSimulator({ cameras: 1, defaults: { profiles } })),
        (running) => Effect.promise(() => running.close()),
      )
      const { base } = yield* wholeNode()
      const login = { username: "admin", password: adminPassword }
      const token = (yield* ask(base, "POST", "/auth/api/v1/auth/login", "", login))["accessToken"] as string
      const camera = yield* ask(base, "POST", "/camera/api/v1/cameras", token, {
        name: "Front door",
        driver: "rtsp",
        username: "admin",
        password: "swordfish",
        streams: [
          { role: "main", sourceUrl: simulator.cameras[0]!.url("main") },
          { role: "sub", sourceUrl: simulator.cameras[0]!.url("sub") },
        ],
      })
      const [{ id }, sub] = (camera as unknown as Made).channels[0]!.streams as readonly [Named, Named]
      const path = yield* ask(base, "GET", `/camera/api/v1/streams/${id}/media-path`, token)
      const url = path["liveHlsUrl"] as string
      assert.isNull(path["liveHlsLimit"])

      // The token decides: none, one of another kind, of another stream.
      const bare = url.replace(/\?.*/, "")
      const other = url.replace(id, "01900000-0000-7000-8000-0000000000bb")
      for (const wrong of [bare, `${bare}?token=${token}`, other, `${bare}?token=${"x".repeat(100)}`]) {
        assert.strictEqual((yield* call(base, "GET", wrong, "")).status, 401)
      }
      assert.strictEqual((yield* call(base, "GET", `${bare}?token=${"x".repeat(3000)}`, "")).status, 400)

      // Players of three makers at a time.
      const [seen, probed, pictures] = yield* Effect.all([
        Effect.promise(() => readLive(base + url, 90_000, 150, [180, 360])),
        Effect.promise(() => run("ffprobe", [...probing, base + url])),
        gstreamer(base + url, 60),
      ], { concurrency: 3 })
      assert.deepStrictEqual(seen.errors, [])
      // To the sub stream and back, by what the playlists report of each other, on one clock.
      const { asked, clockMoved, errors, heights } = seen.switched
      assert.deepStrictEqual([errors, heights], [[], [180, 360]])
      assert.isBelow(clockMoved, 1_000)
      const there = asked.findIndex((one) => one.includes("/other.m3u8"))
      const back = asked.findIndex((one, i) => i > there && one.includes("/live.m3u8"))
      assert.isAtLeast(there, 1)
      assert.match(asked[back]!, /_HLS_msn=\d+&_HLS_part=\d+/)
      assert.isAbove(seen.frames.length, 100)
      assert.deepStrictEqual(consecutive(seen.frames), [])
      assert.isAbove(seen.decoded, 50)
      assert.match(probed.stdout, /^h264,640,\d{2,}$/m)
      assert.match(probed.stdout, /^aac,\d{2,}$/m)
      assert.match(probed.stdout, /^h264,320,/m)
      assert.isAtLeast(pictures, 60)

      const master = yield* call(base, "GET", url, "")
      assert.strictEqual(master.headers.get("content-type"), "application/vnd.apple.mpegurl")
      const folder = /^\/camera\/api\/v1\/live\/hls\/[\w.-]{28}\//m.exec(master.text)![0]
      const second = yield* Effect.promise(() => run("ffprobe", [...probing, `${base}${folder}other.m3u8`]))
      assert.match(second.stdout, /^h264,320,\d{2,}$/m)
      const media = yield* call(base, "GET", `${folder}live.m3u8`, "")
      assert.match(media.text, /^#EXT-X-RENDITION-REPORT:URI="other\.m3u8",LAST-MSN=\d+,LAST-PART=\d+$/m)
      assert.include(media.text, "#EXT-X-PART-INF")
      const segment = Number(/#EXT-X-MEDIA-SEQUENCE:(\d+)/.exec(media.text)![1])
      for (
        const [query, status] of [
          [`_HLS_msn=${segment}`, 200],
          [`_HLS_msn=${segment + 400}`, 400],
          ["_HLS_msn=-1", 400],
          ["_HLS_msn=1e999", 400],
          ["_HLS_msn=%00", 400],
          ["_HLS_part=2", 400],
          [`_HLS_msn=${segment}&_HLS_part=x`, 400],
          ["_HLS_skip=YES", 200],
        ] as const
      ) assert.strictEqual((yield* call(base, "GET", `${folder}live.m3u8?${query}`, "")).status, status, query)
      for (const name of ["init-99.mp4", "part-999999.m4s", "segment-1.m4s", "..%2f..%2fetc", "live.m3u8.bak"]) {
        assert.strictEqual((yield* call(base, "GET", `${folder}${name}`, "")).status, 404, name)
      }
      const part = /URI="(part-\d+\.m4s)"/.exec(media.text)![1]!
      const piece = yield* Effect.promise(() => fetch(`${base}${folder}${part}`, { headers: { range: "bytes=4-7" } }))
      assert.deepStrictEqual([piece.status, yield* Effect.promise(() => piece.text())], [206, "uuid"])

      const still = (path["snapshotUrl"] as string) + "?width=320"
      // On a machine that is busy with other things the first one may take longer than it may.
      const fetched = Effect.promise(() => fetch(base + still, { headers: { authorization: `Bearer ${token}` } }))
      let picture = yield* fetched
      for (let i = 0; i < 5 && picture.status === 503; i++) {
        picture = yield* Effect.andThen(Effect.sleep(1_000), fetched)
      }
      assert.deepStrictEqual([picture.status, picture.headers.get("content-type")], [200, "image/jpeg"])
      assert.isBelow(Number(picture.headers.get("age")), 30)
      const jpeg = Buffer.from(yield* Effect.promise(() => picture.arrayBuffer()))
      assert.strictEqual(jpegSize(jpeg), "mjpeg,320,180")
      for (
        const [query, status] of [["?width=63", 400], ["?width=1921", 400], ["?width=64.5", 400], [
          "?width=",
          400,
        ]] as const
      ) {
        assert.strictEqual(
          (yield* call(base, "GET", `${path["snapshotUrl"] as string}${query}`, token)).status,
          status,
          query,
        )
      }
      assert.strictEqual((yield* call(base, "GET", still, "")).status, 401)
      assert.strictEqual(
        (yield* call(base, "GET", still.replace(id, "01900000-0000-7000-8000-0000000000bb"), token)).status,
        404,
      )

      // The sub stream is on demand: it was looked at, waits, and comes when a picture of it is wanted.
      const subPath = `/camera/api/v1/streams/${sub.id}`
      let idle = yield* ask(base, "GET", subPath, token)
      for (let i = 0; i < 900 && idle["status"] !== "idle"; i++) {
        yield* Effect.sleep(100)
        idle = yield* ask(base, "GET", subPath, token)
      }
      assert.deepInclude(idle, { status: "idle", onDemand: true, codec: "h264", width: 320, height: 180 })
      let woken = 503
      for (let i = 0; i < 5 && woken === 503; i++) {
        woken = (yield* call(base, "GET", `${subPath}/snapshot.jpg`, token)).status
      }
      assert.strictEqual(woken, 200)
      const { sourceUrl } = idle as { readonly sourceUrl: string }
      const kept = yield* ask(base, "PUT", subPath, token, { sourceUrl })
      assert.strictEqual(kept["onDemand"], true)
      assert.strictEqual((yield* ask(base, "PUT", subPath, token, { sourceUrl, onDemand: false }))["onDemand"], false)

      yield* ask(base, "POST", "/auth/api/v1/auth/logout", token)
      let status = 200
      for (let i = 0; i < 300 && status === 200; i++) {
        yield* Effect.sleep(100)
        status = (yield* call(base, "GET", `${folder}live.m3u8`, "")).status
      }
      assert.strictEqual(status, 404)
      assert.strictEqual((yield* call(base, "GET", url, "")).status, 401)
    }),
  240_000,
)
