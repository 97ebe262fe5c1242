/** Pictures of live streams: decoded by a child process, checked by a foreign decoder; a child that misbehaves is replaced. */
import { RecorderSupervisor } from "#media/recorder.ts"
import { Stills } from "#media/still.ts"
import { annexB, type DecoderOptions, defaultDecoderOptions, makeDecoder } from "#media/still/decoder.ts"
import { layer } from "#media/still/live.ts"
import { makeMessageReader, message } from "#media/still/pipe.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Schema } from "effect"
import { execFileSync } from "node:child_process"
import { mkdtempSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { camera } from "./media/access-units.ts"
import { hubStage, streamId, unknownId } from "./media/live-hls-stage.ts"
import { missing } from "./peers/installed.ts"

const lacking = missing("ffmpeg")
const startMs = 1_795_262_400_000
const film = (video: string) => camera({ video, seconds: 5, startMs })
const keys = (video: string) => film(video).units.filter(({ key }) => key)
const ffmpeg = (input: Uint8Array, ...args: ReadonlyArray<string>) =>
  execFileSync("ffmpeg", ["-v", "error", ...args], { input, maxBuffer: 64 << 20 })
/** Luma at 64 by 36 as ffmpeg sees it. */
const luma = (jpeg: Uint8Array) =>
  ffmpeg(jpeg, ..."-f mjpeg -i pipe:0 -vf scale=64:36 -pix_fmt gray -f rawvideo pipe:1".split(" "))
/** The JPEG that ffmpeg itself makes of a picture. */
const theirs = (picture: Uint8Array, format: string) =>
  ffmpeg(picture, ...`-f ${format} -i pipe:0 -frames:v 1 -f mjpeg -q:v 2 pipe:1`.split(" "))
const apart = (a: Uint8Array, b: Uint8Array) => a.reduce((sum, value, i) => sum + Math.abs(value - b[i]!), 0) / a.length
const sizeOf = (jpeg: Uint8Array) =>
  execFileSync("ffprobe", "-v error -show_entries stream=codec_name,width,height -of csv=p=0 pipe:0".split(" "), {
    input: jpeg,
  })
    .toString().trim()

/** A child program of a test's own. */
const program = (text: string) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-still-"))),
      (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true })),
    ),
    (folder) => {
      const path = join(folder, "child.mjs")
      writeFileSync(
        path,
        `import { writeSync } from "node:fs"
const say = (header, payload = Buffer.alloc(0)) => {
  const json = Buffer.from(JSON.stringify(header)), lengths = Buffer.alloc(8)
  lengths.writeUInt32BE(json.length, 0); lengths.writeUInt32BE(payload.length, 4)
  writeSync(3, Buffer.concat([lengths, json, payload]))
}
${text}
`,
      )
      return path
    },
  )
const jpegLike = `Buffer.from([0xff, 0xd8, 0xff, 0xd9])`
const decoderOf = (path: string, more: Partial<DecoderOptions> = {}) =>
  makeDecoder({ ...defaultDecoderOptions, program: path, ...more })
const reasonOf = (exit: Exit.Exit<Uint8Array, { readonly _tag: string; readonly reason: string }>) =>
  Exit.isSuccess(exit) ? "decoded" : JSON.stringify(exit.cause)
const picture = new Uint8Array(100)

/** Of cameras of which nothing bad is known. */
const healthy = Layer.mock(RecorderSupervisor, {
  status: () => null,
  statuses: () => [],
  gaps: () => [],
  secrets: null as never,
})

describe.skipIf(lacking.length > 0)(`pictures${lacking.length > 0 ? " (needs ffmpeg)" : ""}`, () => {
  it.live("are the newest key picture, of the width that was asked for, decoded once", () =>
    Effect.gen(function*() {
      const { hub, streams } = hubStage()
      const stills = Context.get(yield* Layer.build(layer().pipe(Layer.provide([streams, healthy]))), Stills)
      const { parameters, units: all } = film("main-640x360-25.h264")
      hub.parameters(parameters)
      const second = all.findIndex((unit, i) => unit.key && i > 10)
      for (const unit of all.slice(0, second)) hub.unit({ ...unit, arrivalMs: Date.now() })
      const [first, same] = yield* Effect.all([stills.newest(streamId, 320), stills.newest(streamId, 320)], {
        concurrency: 2,
      })
      assert.strictEqual(first.jpeg, same.jpeg)
      assert.strictEqual(sizeOf(first.jpeg), "mjpeg,320,180")
      assert.strictEqual((yield* stills.newest(streamId, 320)).jpeg, first.jpeg)
      assert.strictEqual(sizeOf((yield* stills.newest(streamId, 1920)).jpeg), "mjpeg,640,360")
      for (const unit of all.slice(second)) hub.unit({ ...unit, arrivalMs: Date.now() })
      yield* Effect.sleep(50)
      const newer = yield* stills.newest(streamId, 320)
      assert.notStrictEqual(newer.etag, first.etag)

      // Which picture it is, an independent decoder says.
      const candidates = keys("main-640x360-25.h264").map(({ data }) =>
        luma(theirs(annexB(parameters.video, data), "h264"))
      )
      const distances = candidates.map((one) => apart(one, luma(newer.jpeg)))
      assert.isBelow(distances.at(-1)!, 2)
      assert.isAbove(distances.at(-2)!, distances.at(-1)! + 1)
      assert.strictEqual((yield* Effect.flip(stills.newest(unknownId, 320)))._tag, "StillUnknown")
    }).pipe(Effect.scoped))

  it.live("are decoded of H.265 and of reordered H.264, and of nothing else", () =>
    Effect.gen(function*() {
      const decoder = yield* makeDecoder(defaultDecoderOptions)
      for (
        const [video, codec, format] of [
          ["main-640x360-25.h265", "h265", "hevc"],
          ["bframes-320x180-25.h264", "h264", "h264"],
        ] as const
      ) {
        const { parameters } = film(video)
        for (const key of keys(video).slice(0, 2)) {
          const bytes = annexB(parameters.video, key.data)
          const jpeg = yield* decoder.jpeg(codec, bytes, 320)
          assert.isBelow(apart(luma(theirs(bytes, format)), luma(jpeg)), 2)
        }
      }
      const refused = yield* Effect.flip(decoder.jpeg("h264", Buffer.from("no film"), 320))
      assert.strictEqual(refused._tag, "StillFailed")
      const { parameters } = film("main-640x360-25.h265")
      const again = yield* decoder.jpeg("h265", annexB(parameters.video, keys("main-640x360-25.h265")[0]!.data), 64)
      assert.strictEqual(sizeOf(again), "mjpeg,64,36")
    }).pipe(Effect.scoped))
})

describe("a decoder", () => {
  it.live("that is not there says why, once and for all", () =>
    Effect.gen(function*() {
      const decoder = yield* decoderOf(yield* program(`say({ kind: "unsupported", reason: "no such package" })`))
      for (const _ of [1, 2]) {
        const error = yield* Effect.flip(decoder.jpeg("h264", picture, 320))
        assert.deepInclude(error, { _tag: "StillUnsupported", reason: "no such package" })
      }
    }).pipe(Effect.scoped))

  it.live("that hangs, dies, lies or grows is killed, and the next one is waited for", () =>
    Effect.gen(function*() {
      const ready = `say({ kind: "ready" });`
      const faults: ReadonlyArray<readonly [string, Partial<DecoderOptions>, RegExp]> = [
        [`${ready} process.stdin.on("data", () => { while (true); })`, { longestMs: 300 }, /longer than 0\.3 s/],
        [`setInterval(() => {}, 1000)`, { startMs: 300 }, /longer than 0\.3 s/],
        [`${ready} process.stdin.on("data", () => process.exit(1))`, {}, /ended/],
        [`process.exit(1)`, {}, /ended/],
        [`${ready} process.stdin.on("data", () => writeSync(3, Buffer.alloc(64, 0xff)))`, {}, /ended/],
        [`${ready} process.stdin.on("data", () => say({ kind: "joke" }))`, {}, /ended/],
        [`${ready} process.stdin.on("data", () => say({ kind: "ready" }))`, {}, /nonsense/],
        [`${ready} process.stdin.on("data", () => say({ kind: "jpeg" }, Buffer.from("GIF")))`, {}, /no picture/],
        [
          `${ready} const all = []; process.stdin.on("data", () => { setInterval(() => all.push(Buffer.alloc(30 << 20, 1)), 20) })`,
          {
            mostBytes: 200 << 20,
          },
          /too much memory/,
        ],
      ]
      for (const [text, options, reason] of faults) {
        const decoder = yield* decoderOf(yield* program(text), options)
        assert.match(reasonOf(yield* Effect.exit(decoder.jpeg("h264", picture, 320))), reason, text)
      }
      const dying = yield* decoderOf(yield* program(`process.exit(1)`))
      yield* Effect.exit(dying.jpeg("h264", picture, 320))
      yield* Effect.exit(dying.jpeg("h264", picture, 320))
      assert.match(reasonOf(yield* Effect.exit(dying.jpeg("h264", picture, 320))), /started again/)
    }).pipe(Effect.scoped), 60_000)

  it.live("that died once is there again for the next picture", () =>
    Effect.gen(function*() {
      const path = yield* program(`say({ kind: "ready" })
        process.stdin.on("data", (data) => { if (data.includes("die")) process.exit(1); else if (data.length > 50) say({ kind: "jpeg" }, ${jpegLike}) })`)
      const decoder = yield* decoderOf(path, { idleMs: 100 })
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(decoder.jpeg("h264", picture, 320))))
      assert.isTrue(Exit.isFailure(yield* Effect.exit(decoder.jpeg("h264", Buffer.from("die".repeat(30)), 320))))
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(decoder.jpeg("h264", picture, 320))))
      // It goes when it is idle, and comes when it is needed.
      yield* Effect.sleep(400)
      assert.isTrue(Exit.isSuccess(yield* Effect.exit(decoder.jpeg("h264", picture, 320))))
    }).pipe(Effect.scoped), 60_000)
})

describe("messages", () => {
  it.effect.prop("arrive whole, however they are cut", [
    Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 40 }))),
  ], ([cuts]) =>
    Effect.sync(() => {
      const sent = [3, 0, 200].map((length) => Buffer.concat(message({ kind: "jpeg" }, Buffer.alloc(length, length))))
      const all = Buffer.concat(sent)
      const got: Array<number> = []
      const read = makeMessageReader((header, payload) => {
        assert.deepStrictEqual(JSON.parse(header), { kind: "jpeg" })
        got.push(payload.length)
      })
      let at = 0
      for (const cut of [...cuts, all.length]) {
        if (at < all.length) read(all.subarray(at, at + cut))
        at += cut
      }
      assert.deepStrictEqual(got, [3, 0, 200])
    }))

  it.effect.prop("that are none end in one error", [Schema.Uint8Array], ([bytes]) =>
    Effect.sync(() => {
      const read = makeMessageReader(() => {})
      try {
        read(Buffer.from(bytes))
        assert.isBelow(bytes.length === 0 ? 0 : bytes[0]!, 1)
      } catch (error) {
        assert.include(String(error), bytes.length < 8 ? "expected" : "too long")
      }
    }))
})
