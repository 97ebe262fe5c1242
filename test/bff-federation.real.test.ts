/** What one node shows of another: channels, one timeline, replay relayed with its ranges, configuration by a proxy. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { promisify } from "node:util"
import type { Camera } from "./camera-simulator/camera.ts"
import { committedFolder } from "./camera-simulator/footage.ts"
import { startSimulator } from "./camera-simulator/simulator.ts"
import { type PeerNode, twoPeers, until } from "./harness/two-peers.ts"
import { speak } from "./media/talker.ts"
import { client, rtp } from "./media/webrtc-peers.ts"
import { Watching } from "./media/webrtc-watching.ts"

const probe = promisify(execFile)
const federation = "/federation/api/v1/federation"

interface Span {
  readonly start: string
  readonly end: string
  readonly holderNodeId: string
}

interface ChannelTold {
  readonly id: string
  readonly remoteChannelId: string
  readonly nodeId: string
  readonly cameraName: string
}

const channelsOf = async (node: PeerNode) =>
  (await node.ask("GET", "/bff/api/v1/federation-channels")).body["items"] as ReadonlyArray<ChannelTold>

/** Records the camera until there are a few seconds of it. */
const recorded = async (home: PeerNode, sourceUrl: string, account: { username: string; password: string }) => {
  const camera = await home.ask("POST", "/camera/api/v1/cameras", {
    name: "Gate",
    driver: "rtsp",
    streams: [{ role: "main", sourceUrl }],
    ...account,
  })
  assert.strictEqual(camera.status, 201, JSON.stringify(camera.body))
  const [channel] = camera.body["channels"] as ReadonlyArray<{ id: string }>
  const recording = await home.ask("POST", "/record/api/v1/recordings", {
    channelId: channel!.id,
    mode: "continuous",
    enabled: true,
    retentionDays: 1,
  })
  assert.strictEqual(recording.status, 201, JSON.stringify(recording.body))
  const token = recording.body["recordingToken"] as string
  const from = Date.now()
  await until("four seconds of footage", async () => {
    const query = `start=${new Date(from - 60_000).toISOString()}&end=${new Date().toISOString()}`
    const { body } = await home.ask("GET", `/search/api/v1/recordings/${token}/timeline?${query}`)
    const spans = body["spans"] as ReadonlyArray<{ start: string; end: string }>
    return spans.some(({ end, start }) => Date.parse(end) - Date.parse(start) >= 4_000) || null
  })
  return { token, cameraId: camera.body["id"] as string, channelId: channel!.id, from }
}

/** Talks to the camera of the other node, once its administrator lets people of this one do so. */
const talked = async (
  { guard, home }: { readonly guard: PeerNode; readonly home: PeerNode },
  channelId: string,
  camera: Camera,
) => {
  const talk = `/bff/api/v1/federation-channels/${channelId}/talk`
  const refused = await guard.ask("POST", talk)
  assert.deepInclude(refused.body, { status: 403, code: "forbidden" }, JSON.stringify(refused.body))
  const granted = await home.ask("PUT", `/auth/api/v1/federation/peers/${guard.nodeId}/media-read-enforcement`, {
    enabled: true,
    roles: ["operator"],
  })
  assert.strictEqual(granted.status, 200, JSON.stringify(granted.body))
  await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
    const microphone = yield* client({ direction: "SendOnly", audio: "pcmu" })
    const opened = yield* Effect.promise(() =>
      until("a session", async () => {
        const asked = await guard.ask("POST", talk)
        return asked.status === 200 ? asked : null
      })
    )
    assert.deepInclude(opened.body, { codec: "pcmu", whipUrl: `${talk}/whip` })
    assert.include(JSON.stringify(opened.body["holder"]), "admin (guard)")
    const answer = yield* Effect.promise(() => guard.offer(`${talk}/whip`, microphone.offer))
    assert.strictEqual(answer.status, 201, answer.text)
    microphone.connection.setRemoteDescription(answer.text, "answer")
    yield* Effect.promise(() => until("a connection", async () => microphone.audio!.isOpen() || null))
    const said = readFileSync(join(committedFolder, "tone-8000.pcmu")).subarray(0, 8_000)
    yield* speak(50, (i) => {
      microphone.audio!.sendMessageBinary(rtp(0, 4712, i, i * 160, said.subarray(i * 160, i * 160 + 160)))
    })
    yield* Effect.promise(() => until("words", async () => camera.loudspeaker.heard.packets >= 40 || null))
  })))
  assert.strictEqual((await guard.ask("DELETE", talk)).status, 204)
  assert.strictEqual((await guard.ask("DELETE", talk)).status, 404)
  await until("the audit log of the other node names who talked", async () => {
    const { body: log } = await home.ask("GET", "/auth/api/v1/audit?action=camera.talk.&limit=5")
    return JSON.stringify(log).includes("admin (guard)") || null
  })
}

const picturesOf = async (url: string): Promise<number> => {
  const { stdout } = await probe("ffprobe", [
    "-v",
    "error",
    "-allowed_extensions",
    "ALL",
    "-select_streams",
    "v:0",
    "-count_frames",
    "-show_entries",
    "stream=nb_read_frames",
    "-of",
    "csv=p=0",
    url,
  ])
  return Number(stdout.trim().split("\n")[0])
}

it.live("a node shows what its peer has", () =>
  Effect.gen(function*() {
    const simulator = yield* Effect.acquireRelease(
      Effect.promise(() => startSimulator({ cameras: [{ loudspeaker: "pcmu" }] })),
      (running) => Effect.promise(() => running.close()),
    )
    const { guard, home } = yield* twoPeers({ home: { NIGHTJAR_WEBRTC_UDP_PORTS: "0" } })
    yield* Effect.promise(async () => {
      const account = { username: "admin", password: "swordfish" }
      const { cameraId, channelId, from, token } = await recorded(home, simulator.cameras[0]!.url("main"), account)

      // Channels, under ids that stay.
      const mapped = await guard.ask("POST", `${federation}/nodes/${home.nodeId}/remap`)
      assert.strictEqual(mapped.status, 200, JSON.stringify(mapped.body))
      const listed = await channelsOf(guard)
      assert.deepEqual(listed.map(({ cameraName, nodeId, remoteChannelId }) => [cameraName, nodeId, remoteChannelId]), [
        ["Gate", home.nodeId, channelId],
      ])
      const again = await guard.ask("POST", `${federation}/nodes/${home.nodeId}/remap`)
      assert.deepInclude(again.body, { channels: 1, added: [], changed: [], gone: [] })
      const group = await guard.ask("POST", "/permission/api/v1/resource-groups", {
        name: "Of the other node",
        resources: [{ kind: "channel", id: listed[0]!.id }],
      })
      assert.strictEqual(group.status, 201, JSON.stringify(group.body))

      // One timeline.
      const [start, end] = [new Date(from - 1_000).toISOString(), new Date().toISOString()]
      const timelinePath = `/bff/api/v1/federation-search/recordings/${token}/timeline?start=${start}&end=${end}`
      const timeline = await guard.ask("GET", timelinePath)
      assert.strictEqual(timeline.status, 200, JSON.stringify(timeline.body))
      assert.strictEqual(timeline.body["partial"], false)
      const spans = timeline.body["spans"] as ReadonlyArray<Span>
      assert.isTrue(spans.length > 0 && spans.every(({ holderNodeId }) => holderNodeId === home.nodeId))
      const month = new Date(Date.parse(spans[0]!.start)).toISOString().slice(0, 7)
      const days = await guard.ask(
        "GET",
        timelinePath.replace(/timeline\?.*/, `calendar/month?month=${month}&timeZone=UTC`),
      )
      assert.strictEqual(days.status, 200, JSON.stringify(days.body))
      assert.deepInclude(days.body, { month, timeZone: "UTC", partial: false })
      const [day] = days.body["dates"] as ReadonlyArray<{ date: string; recordedMs: number }>
      assert.strictEqual(day?.date, spans[0]!.start.slice(0, 10))
      assert.isAbove(day!.recordedMs, 3_000)
      const nobody = token.replace(/.$/, (last) => last === "0" ? "1" : "0")
      const unknown = await guard.ask("GET", timelinePath.replace(token, nobody))
      assert.strictEqual(unknown.status, 404)

      // Replay: the same pictures as from the node that has them.
      const asked = { recordingToken: token, start, end: new Date(Date.parse(spans.at(-1)!.end) - 1_000).toISOString() }
      const opened = await guard.ask("POST", "/bff/api/v1/federation-replay/uri", asked)
      assert.strictEqual(opened.status, 201, JSON.stringify(opened.body))
      const uri = opened.body["uri"] as string
      const { body } = await home.ask("POST", "/replay/api/v1/replay/uri", asked)
      const pictures = await picturesOf(`${guard.base}${uri}`)
      assert.isAbove(pictures, 40)
      assert.strictEqual(pictures, await picturesOf(`${home.base}${body["uri"] as string}`))

      // Ranges are passed through, and nothing but the session's own files.
      const playlist = await (await fetch(new URL("playlist.m3u8", `${guard.base}${uri}`))).text()
      const segment = playlist.split("\n").find((line) => line.endsWith(".m4s"))!
      const address = new URL(segment, `${guard.base}${uri}`)
      const part = await fetch(address, { headers: { range: "bytes=10-19" } })
      assert.strictEqual(part.status, 206)
      assert.match(part.headers.get("content-range") ?? "", /^bytes 10-19\/\d+$/)
      const whole = new Uint8Array(await (await fetch(address)).arrayBuffer())
      assert.deepEqual([...new Uint8Array(await part.arrayBuffer())], [...whole.subarray(10, 20)])
      assert.strictEqual((await fetch(address, { headers: { range: `bytes=${whole.length}-` } })).status, 416)
      assert.strictEqual((await fetch(new URL("0-nothing.m4s", address))).status, 404)
      assert.strictEqual((await fetch(String(address).replace(home.nodeId, guard.nodeId))).status, 404)

      // Configuration: what this node's roles there allow, and nothing else.
      const proxy = `/bff/api/v1/federation-config/${home.nodeId}`
      const read = await guard.ask("GET", `${proxy}/camera/api/v1/cameras/${cameraId}`)
      assert.deepInclude(read.body, { id: cameraId, name: "Gate" })
      const change = { name: "Main gate" }
      const refused = await guard.ask("PUT", `${proxy}/camera/api/v1/cameras/${cameraId}`, change)
      assert.deepInclude(refused.body, { status: 502, code: "peer_refused" })
      for (const path of ["auth/api/v1/users", "camera/api/v1/cameras/../../../auth/api/v1/users"]) {
        const { status } = await guard.ask("GET", `${proxy}/${encodeURIComponent(path).replaceAll("%2F", "/")}`)
        assert.include([400, 404, 422], status, path)
      }

      // Live: by WebRTC straight from the node that has the camera, asked for through this one.
      const live = await guard.ask("POST", `/bff/api/v1/federation-channels/${listed[0]!.id}/live`, { role: "main" })
      assert.strictEqual(live.status, 200, JSON.stringify(live.body))
      const whep = `${guard.base}${live.body["whepUri"] as string}`
      await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
        const browser = yield* client({ direction: "RecvOnly", video: "h264" })
        const post = (body: string) =>
          Effect.promise(() =>
            fetch(whep, { method: "POST", headers: { "content-type": "application/sdp" }, body }).then(async (one) => ({
              status: one.status,
              text: await one.text(),
            }))
          )
        assert.strictEqual((yield* post("v=0\r\n")).status, 406)
        const answer = yield* post(browser.offer)
        assert.strictEqual(answer.status, 201, answer.text)
        const watching = new Watching(browser.video!, browser.audio)
        browser.connection.setRemoteDescription(answer.text, "answer")
        yield* Effect.promise(() => until("pictures", async () => watching.pictures.length > 20 || null))
        const shown = () => home.ask("GET", "/camera/api/v1/media-proxy/webrtc/sessions")
        const viewers = yield* Effect.promise(shown)
        const [viewer] = viewers.body["items"] as ReadonlyArray<{ holder: string }>
        assert.strictEqual(viewer?.holder, `peer:${guard.nodeId}:admin`)
        const ended = yield* Effect.promise(() => fetch(whep, { method: "DELETE" }))
        assert.strictEqual(ended.status, 204)
        yield* Effect.promise(() =>
          until("nobody watches any more", async () => {
            const left = await shown()
            return (left.body["items"] as ReadonlyArray<unknown>).length === 0 || null
          })
        )
      })))
      // HLS is opened by its playlist, not before.
      const hls = `${guard.base}${live.body["uri"] as string}`
      assert.strictEqual((await fetch(new URL("live.m3u8", hls))).status, 404)
      assert.include(await (await fetch(hls)).text(), "live.m3u8")
      assert.include(await (await fetch(new URL("live.m3u8", hls))).text(), "#EXT-X-PART")
      await until("the audit log of the other node names who watched", async () => {
        const { body: log } = await home.ask("GET", "/auth/api/v1/audit?action=bffWhep.peerWhep&limit=5")
        return JSON.stringify(log).includes("admin") || null
      })

      await talked({ home, guard }, listed[0]!.id, simulator.cameras[0]!)

      // The end of the pairing ends what was opened.
      assert.strictEqual((await guard.ask("DELETE", `${federation}/nodes/${home.nodeId}/pair`)).status, 204)
      await until("the channels go with the pairing", async () => {
        const left = await channelsOf(guard)
        return left.length === 0 || null
      })
      assert.notStrictEqual((await fetch(address)).status, 200)
    })
  }), 480_000)
