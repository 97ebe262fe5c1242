/**
 * How far behind live hls.js in Chromium is, on a node of its own with one simulated camera: `npm run prove:live-hls [seconds]`. Prints
 * what hls.js tells of its latency, and the age of the shown picture by the playlist's wall clock.
 */
import { Effect } from "effect"
import { startSimulator } from "../camera-simulator/simulator.ts"
import { readLive } from "../harness/live-page.ts"
import { adminPassword, wholeNode } from "../harness/whole-node.ts"

const seconds = Number(process.argv[2] ?? "30")
const framesPerSecond = 25

const ask = async (base: string, path: string, token: string, body?: unknown) => {
  const response = await fetch(`${base}${path}`, {
    method: body === undefined ? "GET" : "POST",
    headers: { "content-type": "application/json", ...(token === "" ? {} : { authorization: `Bearer ${token}` }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`)
  return await response.json() as Record<string, unknown>
}

const quantiles = (values: ReadonlyArray<number>, digits: number) => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))]?.toFixed(digits)
  return `median ${at(0.5)}, 95th percentile ${at(0.95)}, of ${sorted.length} looks`
}

const watch = async (base: string, sourceUrl: string) => {
  const login = { username: "admin", password: adminPassword }
  const token = (await ask(base, "/auth/api/v1/auth/login", "", login))["accessToken"] as string
  const camera = await ask(base, "/camera/api/v1/cameras", token, {
    name: "Front door",
    driver: "rtsp",
    username: "admin",
    password: "swordfish",
    streams: [{ role: "main", sourceUrl }],
  }) as unknown as { readonly channels: ReadonlyArray<{ readonly streams: ReadonlyArray<{ readonly id: string }> }> }
  const path = await ask(base, `/camera/api/v1/streams/${camera.channels[0]!.streams[0]!.id}/media-path`, token)
  return readLive(`${base}${path["liveHlsUrl"] as string}`, seconds * 2_000 + 30_000, seconds * framesPerSecond)
}

await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const simulator = yield* Effect.acquireRelease(
    Effect.promise(() => startSimulator({ cameras: 1 })),
    (running) => Effect.promise(() => running.close()),
  )
  const { base } = yield* wholeNode()
  const seen = yield* Effect.promise(() => watch(base, simulator.cameras[0]!.url("main")))
  const holes = seen.frames.filter((frame, i) => i > 0 && frame !== seen.frames[i - 1]! + 1).length
  console.log(`pictures appended ${seen.frames.length}, holes ${holes}, decoded ${seen.decoded}`)
  console.log(`behind live by hls.js, s: ${quantiles(seen.latencies, 2)}`)
  console.log(`age of the picture by the wall clock, ms: ${quantiles(seen.ages, 0)}`)
  for (const error of seen.errors) console.log(`error: ${error}`)
})))
