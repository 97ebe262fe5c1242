/** Listening to cameras on a virtual clock: what a flood costs, how often is tried again, what a silent camera costs. */
import { layer } from "#actors/behaviour/camera-event.ts"
import { Events } from "#actors/protocol/event.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { Ownership } from "#cluster/ownership.ts"
import { type Device, DeviceDrivers } from "#media/device.ts"
import { CameraAuthFailed, CameraUnreachable, type DeviceError } from "#schema/camera-device.ts"
import type { DeviceNotice } from "#schema/camera-event.ts"
import type { EventDraft } from "#schema/event.ts"
import { Vault } from "#schema/vault.ts"
import { assert, it } from "@effect/vitest"
import { Effect, FileSystem, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"

type Pull = (waitMs: number) => Effect.Effect<
  { readonly notices: ReadonlyArray<DeviceNotice>; readonly leftOut: number },
  DeviceError
>

/** A camera of the fake store and network. */
interface Fake {
  connects: number
  pulls: number
  renewals: number
  /** Why it cannot be connected to. */
  away: DeviceError | null
  /** Null: it notices nothing. */
  pull: Pull | null
}
const fake = (more: Partial<Fake> = {}): Fake => ({
  connects: 0,
  pulls: 0,
  renewals: 0,
  away: null,
  pull: (waitMs) => Effect.delay(Effect.succeed({ notices: [], leftOut: 0 }), waitMs),
  ...more,
})

const notice = (active: boolean): DeviceNotice => ({
  kind: "motion",
  topic: "VideoSource/MotionAlarm",
  detector: "VideoSource/MotionAlarm",
  source: null,
  active,
  initial: false,
  deviceTimeMs: null,
})

const deviceOf = (camera: Fake): Device =>
  ({
    clockOffsetMs: 0,
    events: camera.pull === null ? null : Effect.succeed({
      pull: (waitMs: number) =>
        Effect.suspend(() => {
          camera.pulls += 1
          return camera.pull!(waitMs)
        }),
      renew: Effect.sync(() => {
        camera.renewals += 1
      }),
    }),
  }) as unknown as Device

/** A node that listens to these cameras; `files` is its disk. */
const node = (cameras: Readonly<Record<string, Fake>>, files: Map<string, string> = new Map()) => {
  const published: Array<EventDraft> = []
  const nameOf = (id: string) => Object.keys(cameras).find((name) => name === id)!
  const services = Layer.mergeAll(
    Layer.mock(Ownership, {
      nodeId: "node" as never,
      slot: "slot" as never,
      entityId: (id) => `slot/${id}`,
      owners: Effect.succeed([{ nodeId: "node", slot: "slot", epoch: 1 }] as never),
      changes: Stream.never,
    }),
    Layer.mock(CameraStore, {
      listened: () => Effect.succeed(Object.keys(cameras).map((id) => ({ id, version: 1 })) as never),
      get: (id) => Effect.succeed({ id, name: nameOf(id), channels: [{ id: `channel-${id}`, streams: [] }] } as never),
      endpoint: (id) =>
        Effect.succeed({
          driver: "onvif",
          host: nameOf(id),
          port: 80,
          username: null,
          sealedPassword: null,
          channels: [],
          capabilities: [],
        }),
    }),
    Layer.succeed(DeviceDrivers, {
      rtsp: null,
      mobile: null,
      onvif: {
        connect: ({ host }: { readonly host: string }) =>
          Effect.suspend(() => {
            const camera = cameras[host]!
            camera.connects += 1
            return camera.away === null ? Effect.succeed(deviceOf(camera)) : Effect.fail(camera.away)
          }),
      },
    } as never),
    Layer.mock(Vault, {}),
    Layer.succeed(Events, Events.of({ publish: (draft) => Effect.sync(() => void published.push(draft)) })),
    FileSystem.layerNoop({
      readFileString: (path) => Effect.sync(() => files.get(path) ?? ""),
      writeFileString: (path, text) => Effect.sync(() => void files.set(path, text)),
      rename: (from, to) => Effect.sync(() => void files.set(to, files.get(from)!)),
    }),
  )
  const of = (name: string) =>
    published.filter(({ data }) => (data as { readonly cameraId: string }).cameraId === name).map(({ type }) => type)
  return { published, of, start: Layer.build(layer({ toldPath: "/told" }).pipe(Layer.provide(services))) }
}

const minutes = (count: number) => TestClock.adjust(count * 60_000)

it.effect("a camera that floods costs others nothing, and what was left out of it is told", () =>
  Effect.gen(function*() {
    let on = false
    const loud = fake({
      pull: () =>
        Effect.sync(() => ({
          notices: Array.from({ length: 64 }, () => {
            on = !on
            return notice(on)
          }),
          leftOut: 100,
        })),
    })
    let told = false
    const calm = fake({
      pull: (waitMs) =>
        Effect.suspend(() => {
          if (told) return Effect.delay(Effect.succeed({ notices: [], leftOut: 0 }), waitMs)
          told = true
          return Effect.delay(Effect.succeed({ notices: [notice(true)], leftOut: 0 }), 10_000)
        }),
    })
    const one = node({ loud, calm })
    yield* one.start
    yield* minutes(3)
    assert.deepStrictEqual(one.of("calm"), ["motion.started"])
    const motions = one.of("loud").filter((type) => type.startsWith("motion.")).length
    assert.isTrue(motions >= 180 && motions <= 30 + 180 + 2, String(motions))
    assert.isTrue(loud.pulls <= 180 * 4 + 2, String(loud.pulls))
    const limited = one.published.filter(({ type }) => type === "camera.events.limited")
    assert.isTrue(limited.length === 2 || limited.length === 3, String(limited.length))
    for (const { data } of limited) assert.isTrue((data as { readonly leftOut: number }).leftOut > 10_000)
    assert.isTrue(loud.renewals >= 3 && loud.connects === 1)
  }))

it.effect("a camera that is away is tried again more and more rarely, and is told of once", () =>
  Effect.gen(function*() {
    const camera = fake()
    const one = node({ camera })
    yield* one.start
    yield* minutes(1)
    const pull = camera.pull
    camera.away = new CameraUnreachable({ reason: "timeout", detail: "it is away" })
    camera.pull = () => Effect.fail(camera.away!)
    camera.connects = 0
    yield* minutes(10)
    assert.isTrue(camera.connects >= 10 && camera.connects <= 17, String(camera.connects))
    assert.deepStrictEqual(one.of("camera"), ["camera.connection.lost"])
    camera.away = null
    camera.pull = pull
    yield* minutes(2)
    assert.deepStrictEqual(one.of("camera"), ["camera.connection.lost", "camera.connection.restored"])
  }))

it.effect("a camera that refuses the credentials is not asked so often that it locks the account", () =>
  Effect.gen(function*() {
    const camera = fake({ away: new CameraAuthFailed({ detail: "wrong" }) })
    yield* node({ camera }).start
    yield* minutes(30)
    assert.isTrue(camera.connects >= 5 && camera.connects <= 7, String(camera.connects))
  }))

it.effect("a camera that notices nothing costs a connection an hour, a quiet one a pull in twenty seconds", () =>
  Effect.gen(function*() {
    const silent = fake({ pull: null })
    const quiet = fake()
    const hasty = fake({ pull: () => Effect.succeed({ notices: [], leftOut: 0 }) })
    const one = node({ silent, quiet, hasty })
    yield* one.start
    yield* minutes(50)
    assert.strictEqual(silent.connects, 1)
    assert.strictEqual(quiet.connects, 1)
    assert.isTrue(quiet.pulls <= 151, String(quiet.pulls))
    assert.isTrue(hasty.pulls <= 1_501, String(hasty.pulls))
    assert.deepStrictEqual(one.published, [])
  }))

it.effect("what was told to be so is remembered over a restart of the node", () =>
  Effect.gen(function*() {
    const files = new Map<string, string>()
    const lives = [[notice(true)], [{ ...notice(true), initial: true }], [{ ...notice(false), initial: true }]]
    const told: Array<ReadonlyArray<string>> = []
    for (const notices of lives) {
      let given = false
      const camera = fake({
        pull: (waitMs) =>
          Effect.suspend(() => {
            const now = given ? [] : notices
            given = true
            return Effect.delay(Effect.succeed({ notices: now, leftOut: 0 }), now.length === 0 ? waitMs : 0)
          }),
      })
      const one = node({ camera }, files)
      yield* Effect.scoped(Effect.andThen(one.start, minutes(1)))
      told.push(one.of("camera"))
    }
    assert.deepStrictEqual(told, [["motion.started"], [], ["motion.ended"]])
  }))
