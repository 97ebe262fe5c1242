/** Conversations recorded with real servers, said again byte by byte: every unit of them comes out, however the bytes are cut. */
import { drivers } from "#media/drivers/registry.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { replay, type Transcript } from "#test/fixtures/rtsp/transcript.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { readFileSync } from "node:fs"

interface Expected {
  readonly file: string
  readonly video: string
  readonly audio: string
  readonly units: { readonly video: number; readonly audio: number; readonly keys: number }
}

const expectations: ReadonlyArray<Expected> = [
  {
    file: "gst-1.22-h264-aac-digest-tcp",
    video: "avc1.4d400a",
    audio: "mp4a.40.2",
    units: { video: 42, audio: 63, keys: 3 },
  },
  {
    file: "gst-1.22-h265-pcma-digest-tcp",
    video: "hvc1.1.6.L30.90",
    audio: "alaw",
    units: { video: 31, audio: 150, keys: 2 },
  },
  {
    file: "gst-1.22-h264-pcmu-digest-udp",
    video: "avc1.4d400a",
    audio: "ulaw",
    units: { video: 33, audio: 162, keys: 2 },
  },
  { file: "vlc-3.0-h264-aac-udp", video: "avc1.4d500b", audio: "mp4a.40.2", units: { video: 49, audio: 75, keys: 2 } },
  {
    file: "rtsp-server-perl-h264-aac-udp",
    video: "avc1.4d500b",
    audio: "mp4a.40.2",
    units: { video: 47, audio: 75, keys: 2 },
  },
]

const load = (file: string) =>
  JSON.parse(readFileSync(new URL(`../fixtures/rtsp/${file}.json`, import.meta.url), "utf8")) as Transcript

/**
 * Pictures in a transcript over UDP, counted by their markers alone, from PLAY on: RTSP::Server begins to send at SETUP, and
 * what comes before PLAY does not count.
 */
const pictures = ({ entries }: Transcript): number =>
  entries.slice(entries.findIndex((entry) => "client" in entry && entry.client.startsWith("PLAY"))).filter((entry) =>
    "datagram" in entry && entry.datagram[0] === 0 && entry.datagram[1] === 0 &&
    (Buffer.from(entry.datagram[2], "base64")[1]! & 0x80) !== 0
  ).length

const rising = (units: ReadonlyArray<AccessUnit>) =>
  units.every(({ ticks }, i) => i === 0 || ticks > units[i - 1]!.ticks)

const says = ({ audio, file, units, video }: Expected, chunkBytes: number) =>
  Effect.gen(function*() {
    const transcript = load(file)
    const running = yield* Effect.acquireRelease(Effect.promise(() => replay(transcript, chunkBytes)), (replayer) =>
      Effect.promise(() => replayer.close()))
    const got = { video: [] as Array<AccessUnit>, audio: [] as Array<AccessUnit>, losses: 0 }
    const parameters: Array<TrackParameters> = []
    const fiber = yield* drivers.rtsp.open({
      url: running.url,
      username: transcript.login?.username ?? null,
      password: transcript.login === null ? null : Redacted.make(transcript.login.password),
      transport: transcript.transport,
      requestTimeoutMs: 10_000,
      drainEveryMs: chunkBytes % 2 === 0 ? 20 : 0,
    }, {
      onParameters: (told) =>
        parameters.push(told),
      onUnit: (unit) => got[unit.track].push({ ...unit, data: Buffer.from(unit.data) }),
      onLoss: (count) => {
        got.losses += count
      },
    }).pipe(Effect.forkScoped)
    while (got.video.length < units.video || got.audio.length < units.audio) {
      if (fiber.pollUnsafe() !== undefined) return yield* Fiber.join(fiber)
      yield* Effect.sleep(10)
    }
    yield* Fiber.interrupt(fiber)
    assert.deepStrictEqual(running.differences, [])
    assert.deepStrictEqual({
      video: got.video.length,
      audio: got.audio.length,
      keys: got.video.filter(({ key }) => key).length,
    }, units)
    assert.strictEqual(got.losses, 0)
    assert.deepStrictEqual(
      parameters.map((told) => [told.video.codecs, told.audio?.codecs, told.video.width, told.video.height]),
      [[video, audio, 160, 90]],
    )
    if (transcript.transport === "udp") assert.strictEqual(units.video, pictures(transcript))
    assert.isTrue(rising(got.video) && rising(got.audio))
    return running.requests
  }).pipe(Effect.scoped)

describe("a recorded conversation", () => {
  for (const expected of expectations) {
    it.live(expected.file, () => says(expected, 65_536))
  }

  it.live("in pieces of 97 and of 1,448 bytes", () =>
    Effect.gen(function*() {
      yield* says(expectations[0]!, 1448)
      const requests = yield* says(expectations[1]!, 97)
      assert.match(requests[2] ?? "", /Authorization: Digest username="user", realm="GStreamer RTSP Server"/)
    }))
})
