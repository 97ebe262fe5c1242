/** What a camera notices becomes events, once: over a lost subscription, a restart of the camera and one of the node. */
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, it } from "@effect/vitest"
import { Effect, FileSystem } from "effect"
import { adminPassword, type WholeNode, wholeNode } from "./harness/whole-node.ts"
import { type SimulatedDevice, startDevice } from "./onvif-simulator/device.ts"

interface Told {
  readonly type: string
  readonly subject: string
  readonly data: Readonly<Record<string, unknown>>
}

/** Events of cameras that are told of, in order; states of streams are not among them. */
const told = ({ sql }: WholeNode) =>
  sql<Told>`
    SELECT type, subject, data FROM event
    WHERE type LIKE 'motion.%' OR type LIKE 'input.%' OR type LIKE 'line.%' OR type LIKE 'camera.connection.%'
      OR type = 'camera.events.limited'
    ORDER BY position`
const typesOf = (events: ReadonlyArray<Told>) => events.map(({ type }) => type)

/** Asks again until it is so. */
const until = <A, E>(what: string, ask: Effect.Effect<A, E>, so: (answer: A) => boolean) =>
  Effect.gen(function*() {
    for (;;) {
      const answer = yield* ask
      if (so(answer)) return answer
      yield* Effect.sleep(100)
    }
  }).pipe(Effect.timeoutOrElse({ duration: "60 seconds", orElse: () => Effect.die(new Error(`never: ${what}`)) }))

const ask = (node: WholeNode, method: string, path: string, token: string | null, body?: unknown) =>
  Effect.promise(async () => {
    const response = await fetch(`${node.base}${path}`, {
      method,
      headers: {
        "content-type": "application/json",
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, body: (text === "" ? {} : JSON.parse(text)) as Record<string, unknown> }
  })
const signIn = (node: WholeNode) =>
  Effect.map(
    ask(node, "POST", "/auth/api/v1/auth/login", null, { username: "admin", password: adminPassword }),
    ({ body }) => String(body["accessToken"]),
  )

const motion = (on: boolean) => ({
  topic: "tns1:VideoSource/MotionAlarm",
  source: { Source: "source-1" },
  data: { State: String(on) },
})
const input = (on: boolean) => ({
  topic: "tns1:Device/Trigger/DigitalInput",
  source: { InputToken: "1" },
  data: { LogicalState: String(on) },
})
const crossing = { topic: "tns1:RuleEngine/LineDetector/Crossed", source: {}, data: { ObjectId: "1" }, moment: true }

const listening = (device: SimulatedDevice) =>
  until("somebody listens", Effect.sync(() => device.state.events.subscriptions), (count) => count === 1)
const device = (port?: number) =>
  Effect.acquireRelease(
    Effect.promise(() => startDevice({}, port === undefined ? {} : { port })),
    (one) => Effect.promise(() => one.close()),
  )

/** The camera is heard, loses its subscriptions, floods. */
const hearing = (node: WholeNode, camera: SimulatedDevice) =>
  Effect.gen(function*() {
    const { events, quirks } = camera.state
    const { host, port } = camera
    const token = yield* signIn(node)
    const made = yield* ask(node, "POST", "/camera/api/v1/cameras", token, {
      name: "Yard",
      driver: "onvif",
      host,
      port,
      username: "admin",
      password: "swordfish",
    })
    assert.strictEqual(made.status, 201, JSON.stringify(made.body))
    const [channel] = made.body["channels"] as ReadonlyArray<{ readonly id: string }>
    yield* listening(camera)
    events.raise({ ...motion(true), time: "2031-05-06T07:08:09.000Z" })
    const [started] = yield* until("motion", told(node), (all) => all.length > 0)
    assert.deepInclude(started, { type: "motion.started", subject: channel!.id })
    assert.deepInclude(started!.data, {
      name: "Yard",
      cameraId: made.body["id"],
      channelId: channel!.id,
      topic: "VideoSource/MotionAlarm",
      deviceTime: "2031-05-06T07:08:09.000Z",
    })

    // A subscription is lost, and the camera says everything again: nothing of it is news.
    events.forget()
    yield* listening(camera)
    quirks.repeatsEvents = true
    events.raise(input(true))
    const two = yield* until("the input", told(node), (all) => all.length > 1)
    assert.deepStrictEqual(typesOf(two), ["motion.started", "input.activated"])
    quirks.repeatsEvents = false

    // One moment after the other: bounded, and what comes after them is not lost.
    for (let each = 0; each < 200; each += 1) events.raise(crossing)
    events.raise(input(false))
    const flooded = yield* until("the input's end", told(node), (all) => typesOf(all).includes("input.deactivated"))
    const crossed = typesOf(flooded).filter((type) => type === "line.crossed").length
    assert.isTrue(crossed > 0 && crossed <= 60, String(crossed))
  })

it.live(
  "what a camera notices is told once, over restarts of the camera and of the node",
  () =>
    Effect.gen(function*() {
      const fs = yield* FileSystem.FileSystem
      const data = yield* fs.makeTempDirectoryScoped({ prefix: "nightjar-events-" })
      const settings = { NIGHTJAR_DATA_DIR: data }
      const first = yield* device()
      const before = yield* Effect.gen(function*() {
        const node = yield* wholeNode(settings)
        yield* hearing(node, first)
        // The camera restarts, and the motion that it had told is over.
        yield* Effect.promise(() => first.close())
        const second = yield* device(first.port)
        second.state.events.raise(motion(false))
        yield* until("the end of the motion", told(node), (all) => typesOf(all).includes("motion.ended"))
        second.state.events.raise(motion(true))
        return yield* until("motion again", told(node), (all) => typesOf(all).at(-1) === "motion.started")
      }).pipe(Effect.scoped)
      // While the node is away the input is switched on; the motion goes on as it was told.
      const third = yield* device(first.port)
      third.state.events.raise(motion(true))
      third.state.events.raise(input(true))
      const node = yield* wholeNode(settings)
      const after = yield* until("the input", told(node), (all) => typesOf(all).at(-1) === "input.activated")
      assert.deepStrictEqual(typesOf(after.slice(before.length)).filter((type) => !type.startsWith("camera.")), [
        "input.activated",
      ])

      // A camera that is switched off is not listened to.
      const token = yield* signIn(node)
      const cameras = yield* ask(node, "GET", "/camera/api/v1/cameras", token)
      const [{ id }] = cameras.body["items"] as [{ readonly id: string }]
      const switched = yield* ask(node, "PUT", `/camera/api/v1/cameras/${id}`, token, { name: "Yard", enabled: false })
      assert.strictEqual(switched.status, 200)
      yield* until("nobody listens", Effect.sync(() => third.state.events.subscriptions), (count) => count === 0)
    }).pipe(Effect.scoped, Effect.provide(NodeFileSystem.layer)),
  180_000,
)
