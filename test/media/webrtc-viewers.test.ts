/** Browsers that watch: what arrives is what the camera sent; losses, key pictures, thin lines, and who is put out. */
import { makeStreamHub } from "#media/capture/hub.ts"
import { LiveStreams } from "#media/hub.ts"
import { WebRtcViewers } from "#media/webrtc-viewers.ts"
import { WebRtc } from "#media/webrtc.ts"
import { layer as webRtcLayer } from "#media/webrtc/live.ts"
import { layer as viewersLayer } from "#media/webrtc/viewers.ts"
import type { AccessUnit } from "#schema/media.ts"
import { byRelay, isRtp, lossyRelay } from "#test/harness/lossy-relay.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { createHash } from "node:crypto"
import { footage, streamId, unknownId, until } from "./rtsp-server-fixtures.ts"
import { client, webRtcOptions } from "./webrtc-peers.ts"
import { Watching } from "./webrtc-watching.ts"

const stage = Effect.gen(function*() {
  const hub = makeStreamHub(() => {})
  const permission = { holds: true }
  const live = Layer.succeed(
    LiveStreams,
    LiveStreams.of({
      parameters: () => hub.newestParameters(),
      watch: (id, bounds) =>
        id !== streamId ?
          Effect.succeed(null) :
          Effect.map(
            Effect.acquireRelease(Effect.sync(() => hub.join(bounds)), ({ leave }) => Effect.sync(leave)),
            ({ view }) => view,
          ),
    }),
  )
  const context = yield* Layer.build(
    viewersLayer.pipe(Layer.provideMerge(webRtcLayer(webRtcOptions)), Layer.provide(live)),
  )
  const viewers = Context.get(context, WebRtcViewers)
  const { config } = Context.get(context, WebRtc)
  yield* until("a port", () => config().port !== null)
  const relay = yield* lossyRelay(config().port!)
  const holder = { id: "session 1", userAgent: "test", holds: Effect.sync(() => permission.holds) }
  return { hub, viewers, holder, permission, relay }
})

/** A client that watches, connected. */
const watch = Effect.fnUntraced(
  function*({ holder, relay, viewers }: Effect.Success<typeof stage>, audio: "opus" | "pcmu" | "pcma" = "pcmu") {
    const browser = yield* client({ direction: "RecvOnly", video: "h264", audio })
    const peer = yield* viewers.watch(streamId, browser.offer, holder)
    const watching = new Watching(browser.video!, browser.audio)
    browser.connection.setRemoteDescription(byRelay(peer.answer, relay), "answer")
    yield* until("a connection", () => browser.connection.state() === "connected")
    return { browser, peer, watching }
  },
)

const print = (nal: Buffer): string => createHash("sha1").update(nal).digest("base64url").slice(0, 8)

const nalsOf = ({ data }: AccessUnit): ReadonlyArray<string> => {
  const bytes = Buffer.from(data)
  const nals: Array<string> = []
  for (let at = 0; at < bytes.length; at += 4 + bytes.readUInt32BE(at)) {
    nals.push(print(bytes.subarray(at + 4, at + 4 + bytes.readUInt32BE(at))))
  }
  return nals
}

const isPicture = (nal: Buffer) => [1, 5, 6].includes(nal[0]! & 31)
const seenBy = ({ pictures }: Watching) => pictures.map(({ nals }) => nals.filter(isPicture).map(print).join())
const videoOf = (units: ReadonlyArray<AccessUnit>) => units.filter(({ track }) => track === "video")
const sentBy = (units: ReadonlyArray<AccessUnit>) => videoOf(units).map((unit) => nalsOf(unit).join())

describe("who watches by WebRTC", () => {
  it.live("gets the group so far at once, then everything, with parameter sets and sound", () =>
    Effect.scoped(Effect.gen(function*() {
      const set = yield* stage
      const { parameters, units } = footage({ audio: "tone-8000.pcmu" })
      const half = Math.floor(units.length * 0.55)
      set.hub.parameters(parameters)
      for (const unit of units.slice(0, half)) set.hub.unit(unit)
      const { peer, watching } = yield* watch(set)
      assert.strictEqual(peer.sound, "pcmu")
      const begun = videoOf(units.slice(0, half)).findLastIndex(({ key }) => key)
      const soFar = sentBy(units.slice(0, half)).slice(begun)
      yield* until("the group so far", () => watching.pictures.length === soFar.length)
      assert.deepStrictEqual(seenBy(watching), soFar)
      const [first] = watching.pictures
      assert.deepStrictEqual(first!.nals.slice(0, 2).map((nal) => nal[0]! & 31), [7, 8])
      const times = watching.pictures.map(({ timestamp }) => timestamp)
      assert.isTrue(times.slice(1).every((time, index) => (time - times[index]!) === 90))
      for (const unit of units.slice(half)) {
        set.hub.unit(unit)
        yield* Effect.sleep(1)
      }
      const all = sentBy(units)
      yield* until("the last picture", () => watching.pictures.length === all.length - begun)
      assert.deepStrictEqual(seenBy(watching), all.slice(begun))
      assert.isAbove(watching.sounds.length, 10)
      watching.report()
      yield* until("its report", () => set.viewers.sessions()[0]?.rttMs !== null)
      assert.deepInclude(set.viewers.sessions()[0], {
        streamId,
        state: "connected",
        holder: "session 1",
        userAgent: "test",
        sound: "pcmu",
        lostPackets: 0,
        jitterMs: 1,
        skippedPictures: 0,
      })
    })))

  it.live("loses nothing of what it asks for again, also far back", () =>
    Effect.scoped(Effect.gen(function*() {
      const set = yield* stage
      const { parameters, units } = footage()
      set.hub.parameters(parameters)
      set.hub.unit(units[0]!)
      const { watching } = yield* watch(set)
      let count = 0
      set.relay.lose = (bytes) => isRtp(bytes) && count++ % 7 === 3
      for (const [index, unit] of units.slice(1).entries()) {
        set.hub.unit(unit)
        yield* Effect.sleep(1)
        // What is asked for after seconds is not to be had any more.
        if (index % 50 === 49) watching.askAgain()
      }
      const all = sentBy(units)
      yield* until("all of it", () => {
        watching.askAgain()
        return watching.pictures.length >= all.length - 1
      })
      assert.deepStrictEqual(seenBy(watching), all.slice(0, watching.pictures.length))
      assert.isAbove(set.viewers.sessions()[0]!.resentPackets, 10)
    })))

  it.live("gets a key picture when it asks, but no flood", () =>
    Effect.scoped(Effect.gen(function*() {
      const set = yield* stage
      const { parameters, units } = footage()
      const pictures = videoOf(units)
      const second = pictures.findIndex(({ key }, index) => key && index > 0)
      set.hub.parameters(parameters)
      for (const unit of pictures.slice(0, second + 5)) set.hub.unit(unit)
      const { watching } = yield* watch(set)
      yield* until("the group", () => watching.pictures.length === 5)
      for (let i = 0; i < 20; i++) watching.askForPicture()
      yield* until("it once more", () => watching.pictures.length === 10)
      set.hub.unit(pictures[second + 5]!)
      yield* until("the next", () => watching.pictures.length === 11)
      const seen = seenBy(watching)
      assert.deepStrictEqual(seen.slice(5, 10), seen.slice(0, 5))
      const times = watching.pictures.map(({ timestamp }) => timestamp)
      assert.isTrue(times.slice(1).every((time, index) => time > times[index]!))
      assert.strictEqual(set.viewers.sessions()[0]!.keyRequests, 1)
    })))

  it.live("on a thin line loses whole groups, and goes on with a key picture", () =>
    Effect.scoped(Effect.gen(function*() {
      const set = yield* stage
      const { parameters, units } = footage({ seconds: 12 })
      const pictures = videoOf(units)
      const sent = sentBy(units)
      set.hub.parameters(parameters)
      set.hub.unit(pictures[0]!)
      const { watching } = yield* watch(set)
      yield* until("the first", () => watching.pictures.length === 1)
      watching.report(200)
      watching.report(200)
      const skipped = () => set.viewers.sessions()[0]!.skippedPictures
      let behind: number | null = null
      for (const [index, unit] of pictures.entries()) {
        if (index === 0) continue
        set.hub.unit(unit)
        yield* Effect.sleep(behind === null ? 10 : 1)
        if (skipped() > 0) behind ??= index
      }
      assert.isNotNull(behind)
      const resumed = pictures.findIndex(({ key }, index) => key && index > behind)
      yield* until("the last picture", () => seenBy(watching).at(-1) === sent.at(-1))
      assert.deepStrictEqual(seenBy(watching), [...sent.slice(0, behind), ...sent.slice(resumed)])
      assert.strictEqual(skipped(), resumed - behind)
    })))

  it.live("is put out with the permission, and hears no more", () =>
    Effect.scoped(Effect.gen(function*() {
      const set = yield* stage
      const { parameters, units } = footage()
      set.hub.parameters(parameters)
      for (const unit of units.slice(0, 20)) set.hub.unit(unit)
      const { browser, peer } = yield* watch(set)
      assert.strictEqual(set.viewers.viewer(streamId, peer.id)?.id, peer.id)
      assert.isNull(set.viewers.viewer(unknownId, peer.id))
      set.permission.holds = false
      yield* until("the end", () => set.viewers.sessions().length === 0)
      assert.strictEqual(peer.state(), "ended")
      yield* until("it to be told", () => browser.connection.state() !== "connected")
      assert.deepStrictEqual(set.viewers.endings(), { closed: 1 })
    })))

  it.live.each(
    [
      ["main-640x360-25.h265", "h265"],
      ["bframes-320x180-25.h264", "reordered"],
    ] as const,
  )("is told that %s cannot be played", ([video, why]) =>
    Effect.scoped(Effect.gen(function*() {
      const set = yield* stage
      const { parameters, units } = footage({ video })
      set.hub.parameters(parameters)
      for (const unit of units.slice(0, 40)) set.hub.unit(unit)
      const { offer } = yield* client({ direction: "RecvOnly", video: "h264" })
      const refused = yield* Effect.flip(set.viewers.watch(streamId, offer, set.holder))
      assert.strictEqual(refused._tag === "WatchUnplayable" ? refused.why : refused._tag, why)
      const unknown = yield* Effect.flip(set.viewers.watch(unknownId, offer, set.holder))
      assert.strictEqual(unknown._tag, "WatchUnknown")
      const vp8 = yield* client({ direction: "RecvOnly", video: "vp8" })
      set.hub.parameters(footage().parameters)
      yield* Effect.sleep(50)
      const other = yield* Effect.flip(set.viewers.watch(streamId, vp8.offer, set.holder))
      assert.strictEqual(other._tag, "SdpRefused")
      assert.deepStrictEqual(set.viewers.sessions(), [])
    })))

  it.live("sees without sound where the camera speaks AAC", () =>
    Effect.scoped(Effect.gen(function*() {
      const set = yield* stage
      const { parameters, units } = footage()
      set.hub.parameters(parameters)
      for (const unit of units.slice(0, 40)) set.hub.unit(unit)
      const { peer, watching } = yield* watch(set, "opus")
      assert.strictEqual(peer.sound, "unplayable")
      assert.include(peer.answer, "m=audio 0 ")
      yield* until("a picture", () => watching.pictures.length > 0)
    })))
})
