/** A whole node: a camera is talked to by one user at a time, from a browser's microphone and by RTSP, and hears what is said. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { committedFolder } from "./camera-simulator/footage.ts"
import { startSimulator } from "./camera-simulator/simulator.ts"
import { adminPassword, wholeNode } from "./harness/whole-node.ts"
import { until } from "./media/rtsp-server-fixtures.ts"
import { rtspTalker, speak, talkRequire } from "./media/talker.ts"
import { client, rtp } from "./media/webrtc-peers.ts"

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
  readonly text: string
  readonly location: string | null
}

const send = (
  base: string,
  method: string,
  path: string,
  token: string | null,
  body?: unknown,
  type = "application/json",
): Effect.Effect<Answer> =>
  Effect.promise(async () => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: {
        ...(token === null ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { "content-type": type }),
      },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = /json/.test(response.headers.get("content-type") ?? "")
    return {
      status: response.status,
      body: isJson ? JSON.parse(text) as Record<string, unknown> : {},
      text,
      location: response.headers.get("location"),
    }
  })

/** Status and problem in one. */
const told = ({ body, status }: Answer): Record<string, unknown> => ({ ...body, status })

const login = (base: string, username: string, password: string) =>
  Effect.map(
    send(base, "POST", "/auth/api/v1/auth/login", null, { username, password }),
    ({ body }) => String(body["accessToken"]),
  )

const addCamera = (base: string, token: string, name: string, sourceUrl: string) =>
  Effect.map(
    send(base, "POST", "/camera/api/v1/cameras", token, {
      name,
      driver: "rtsp",
      username: "admin",
      password: "swordfish",
      streams: [{ role: "main", sourceUrl }],
    }),
    ({ body }) =>
      (body as unknown as { channels: ReadonlyArray<{ streams: ReadonlyArray<{ id: string }> }> }).channels[0]!
        .streams[0]!.id,
  )

it.live(
  "one talker a camera: what he says is heard, others learn who talks, and it ends when he goes",
  () =>
    Effect.gen(function*() {
      const simulator = yield* Effect.acquireRelease(
        Effect.promise(() => startSimulator({ cameras: [{ loudspeaker: "pcmu" }, {}] })),
        (running) => Effect.promise(() => running.close()),
      )
      const { base } = yield* wholeNode()
      const admin = yield* login(base, "admin", adminPassword)
      const talking = yield* addCamera(base, admin, "Gate", simulator.cameras[0]!.url("main"))
      const deaf = yield* addCamera(base, admin, "Yard", simulator.cameras[1]!.url("main"))
      const password = "Correct-horse-9-battery"
      for (const [username, role] of [["bob", "operator"], ["eve", "viewer"]]) {
        const made = yield* send(base, "POST", "/auth/api/v1/users", admin, {
          username,
          password,
          roles: [role],
          mustChangePassword: false,
        })
        assert.strictEqual(made.status, 201, made.text)
      }
      const bob = yield* login(base, "bob", password)
      const eve = yield* login(base, "eve", password)
      const at = (streamId: string, rest = "") => `/camera/api/v1/streams/${streamId}/backchannel${rest}`

      const none = yield* send(base, "POST", at(deaf), admin)
      assert.deepInclude(told(none), {
        status: 501,
        code: "talk_back_unsupported",
      })
      assert.strictEqual((yield* send(base, "POST", at(talking), eve)).status, 403)
      assert.deepInclude((yield* send(base, "GET", at(talking, "/status"), eve)).body, { active: false, session: null })

      const opened = yield* send(base, "POST", at(talking), bob)
      assert.strictEqual(opened.status, 201, opened.text)
      assert.deepInclude(opened.body, { codec: "pcmu", via: "http", streamId: talking, whipUrl: at(talking, "/whip") })
      const again = yield* send(base, "POST", at(talking), bob)
      assert.strictEqual(again.body["id"], opened.body["id"])
      const taken = yield* send(base, "POST", at(talking), admin)
      assert.deepInclude(told(taken), {
        status: 409,
        code: "talk_back_taken",
        holder: "bob",
      })
      const status = (yield* send(base, "GET", at(talking, "/status"), eve)).body
      assert.isTrue(status["active"])
      assert.deepInclude(status["session"], { id: opened.body["id"], mine: false })
      const refused = yield* send(base, "POST", at(talking, "/whip"), bob, "v=0\r\n", "application/sdp")
      assert.deepInclude(told(refused), {
        status: 422,
        code: "talk_offer_refused",
      })
      assert.strictEqual(
        (yield* send(base, "POST", at(talking, "/whip"), admin, "v=0\r\n", "application/sdp")).status,
        404,
      )

      const microphone = yield* client({ direction: "SendOnly", audio: "pcmu" })
      const answered = yield* send(base, "POST", at(talking, "/whip"), bob, microphone.offer, "application/sdp")
      assert.strictEqual(answered.status, 201, answered.text)
      assert.isTrue(answered.location?.startsWith(at(talking, "/whip/")))
      microphone.connection.setRemoteDescription(answered.text, "answer")
      yield* until("a connection", () => microphone.audio!.isOpen())
      const tone = readFileSync(join(committedFolder, "tone-8000.pcmu"))
      const said = tone.subarray(0, 8_000)
      yield* speak(50, (i) => {
        microphone.audio!.sendMessageBinary(rtp(0, 4712, i, i * 160, said.subarray(i * 160, i * 160 + 160)))
      })
      const camera = simulator.cameras[0]!
      yield* until("every word to be heard", () => camera.loudspeaker.heard.packets >= 50)
      const heard = camera.loudspeaker.heard
      assert.deepInclude(heard, { missing: 0, payloadTypes: [0] })
      assert.isAtLeast(heard.payload.indexOf(said.subarray(0, 800)), 0)

      // By RTSP it is the same lease.
      const rtspUrl = (yield* send(base, "GET", `/camera/api/v1/streams/${talking}/media-path`, admin))
        .body["rtspUrl"] as string
      const shut = yield* rtspTalker(rtspUrl)
      assert.strictEqual(yield* shut.ask("DESCRIBE", "", talkRequire), 453)

      // Who may change the camera ends it.
      assert.strictEqual((yield* send(base, "DELETE", at(talking), admin)).status, 204)
      assert.strictEqual((yield* send(base, "DELETE", at(talking), bob)).status, 404)
      const before = camera.loudspeaker.heard.packets
      yield* Effect.scoped(Effect.gen(function*() {
        const player = yield* rtspTalker(rtspUrl)
        assert.strictEqual(yield* player.ask("DESCRIBE", "", talkRequire), 200)
        const transport = "Transport: RTP/AVP/TCP;unicast;interleaved=4-5"
        assert.strictEqual(yield* player.ask("SETUP", "/trackID=2", talkRequire, transport), 200)
        const session = `Session: ${/Session: (\w+)/.exec(player.said())![1]}`
        assert.strictEqual(yield* player.ask("PLAY", "", talkRequire, session), 200)
        yield* speak(30, (i) => player.send(4, rtp(0, 99, i, i * 160, said.subarray(i * 160, i * 160 + 160))))
        yield* until("words by RTSP", () => camera.loudspeaker.heard.packets >= before + 30)
        const taken = yield* send(base, "POST", at(talking), bob)
        assert.deepInclude(told(taken), { status: 409, holder: "admin" })
      }))
      let second = yield* send(base, "POST", at(talking), bob)
      for (let i = 0; i < 100 && second.status === 409; i++) {
        yield* Effect.sleep(100)
        second = yield* send(base, "POST", at(talking), bob)
      }
      assert.strictEqual(second.status, 201)
      yield* send(base, "POST", "/auth/api/v1/auth/logout", bob)
      let active = true
      for (let i = 0; i < 100 && active; i++) {
        yield* Effect.sleep(100)
        active = (yield* send(base, "GET", at(talking, "/status"), admin)).body["active"] === true
      }
      assert.isFalse(active)
      yield* until("the camera to be left", () => simulator.cameras[0]!.report().requests["TEARDOWN"]! >= 2)
      // Entries reach the log a moment after what they tell of.
      type Entry = {
        readonly action: string
        readonly detail: Record<string, unknown>
        readonly actor: { readonly name: string }
      }
      let ends: ReadonlyArray<Entry> = []
      for (let i = 0; i < 100 && ends.length < 3; i++) {
        yield* Effect.sleep(100)
        const { body } = yield* send(base, "GET", "/auth/api/v1/audit?limit=100", admin)
        ends = (body["items"] as ReadonlyArray<Entry>).filter(({ action }) => action === "camera.talk.ended")
      }
      assert.deepStrictEqual(ends.map(({ actor, detail }) => [actor.name, detail["cause"]]), [
        ["bob", "notAllowed"],
        ["admin", "closed"],
        ["bob", "closed"],
      ])
    }),
  180_000,
)
