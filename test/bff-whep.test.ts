/** Two members of a cluster in memory: what a paired node's viewer watches by WebRTC of the one that it is not paired with. */
import { PeerTokens } from "#actors/protocol/auth-federation.ts"
import { Serving } from "#actors/protocol/camera-serving.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { type PeerRequest, Peers } from "#actors/protocol/federation-peer.ts"
import { Resources } from "#actors/protocol/permission.ts"
import { type OutgoingPeer, type WatchHolder, WatchUnknown, WebRtcViewers } from "#media/webrtc-viewers.ts"
import { WebRtc } from "#media/webrtc.ts"
import { ChannelId, NodeId, StreamId } from "#schema/common.ts"
import { PeerRefused } from "#schema/federation.ts"
import type { Grant, PeerPrincipal } from "#schema/permission.ts"
import { Unauthenticated } from "#schema/problem.ts"
import { assert, it } from "@effect/vitest"
import { Clock, Effect, Layer, Redacted, Stream } from "effect"
import { webHandler } from "./http-fixtures.ts"

const nodeOf = (n: number) => NodeId.make(`01900000-0000-7000-8000-00000000000${n}`)
const [away, door, server] = [nodeOf(1), nodeOf(2), nodeOf(3)]
const streamId = StreamId.make("01900000-0000-7000-8000-0000000000aa")
const channelId = ChannelId.make("01900000-0000-7000-8000-0000000000ab")
const sessionId = "s".repeat(24)
const path = `/federation/api/v1/federation/streams/${streamId}/whep`
const everything: ReadonlyArray<Grant> = [{ role: "all", permissions: ["*"], resources: "all" }]

/** Whom the two believe: tokens are the names of nodes. `grants`: of the paired node. */
const tokens = (grants: () => ReadonlyArray<Grant>) => {
  const known = (nodeId: NodeId): PeerPrincipal => ({
    kind: "peer",
    nodeId,
    name: nodeId === away ? "away" : "door",
    relation: nodeId === away ? "peer" : "member",
    onBehalfOf: nodeId === away ? "eve" : "eve (away)",
    grants: nodeId === away ? grants() : everything,
  })
  return Layer.mock(PeerTokens, {
    verify: ({ token }) => {
      const nodeId = [away, door].find((one) => one === Redacted.value(token))
      return nodeId === undefined ?
        Effect.fail(new Unauthenticated({ message: "nobody" })) :
        Effect.succeed(known(nodeId))
    },
    nonce: Effect.succeed("nonce"),
    grantsOf: (nodeId) => Effect.succeed(known(nodeId).grants),
    untilEnded: () => Effect.never,
    claimed: () => Effect.succeed(null),
  })
}

const noViewers = {
  config: { maxViewers: 1 },
  viewer: () => null,
  sessions: () => [],
  end: () => false,
  endings: () => ({}),
}

const stage = Effect.gen(function*() {
  const life = { granted: true, closed: false, holder: null as WatchHolder | null, passed: [] as Array<PeerRequest> }
  const both = Layer.mergeAll(
    tokens(() => life.granted ? everything : []),
    Layer.mock(Cameras, {
      stream: () => Effect.succeed({ cameraId: channelId, channelId }) as never,
    }),
    Layer.mock(Resources, { containing: () => Effect.succeed([{ kind: "channel", id: channelId }]) }),
    Layer.mock(WebRtc, { iceServers: [], config: () => assert.fail("nobody asks") }),
  )
  const peer: OutgoingPeer = {
    id: sessionId,
    answer: "v=0 answered",
    sound: "none",
    state: () => "connected",
    remote: () => null,
    trickle: () => "taken",
    close: () => {
      life.closed = true
    },
  }
  const serverNode = yield* webHandler(
    {},
    Layer.mergeAll(
      both,
      Layer.mock(WebRtcViewers, {
        ...noViewers,
        watch: (_id, _offer, holder) => {
          life.holder = holder
          return Effect.succeed(peer)
        },
        viewer: (_id, id) => id === sessionId && !life.closed ? peer : null,
      }),
    ),
  )
  const asked = (node: typeof serverNode, by: NodeId, method: string, where: string, more: RequestInit = {}) => {
    const headers = new Headers(more.headers)
    headers.set("authorization", `DPoP ${by}`)
    if (method === "POST" && where === path) headers.set("content-type", "application/sdp")
    return node(where, { method, ...more, headers })
  }
  /** As it is between members: an answer that refuses is a failure. */
  const send = Effect.fnUntraced(function*(nodeId: NodeId, request: PeerRequest) {
    assert.strictEqual(nodeId, server)
    life.passed.push(request)
    const { body, headers = {}, method, path: where } = request
    const text = body === undefined || !("stream" in body) ?
      "" :
      yield* body.stream.pipe(Stream.decodeText, Stream.mkString)
    const answer = yield* asked(serverNode, door, method, where, { headers, ...(text === "" ? {} : { body: text }) })
    if (answer.status >= 300) {
      const told = (yield* Effect.promise(() => answer.json())) as { readonly code: string }
      return yield* new PeerRefused({ nodeId, theirStatus: answer.status, theirCode: told.code, reason: "no" })
    }
    const bytes = new Uint8Array(yield* Effect.promise(() => answer.arrayBuffer()))
    return { status: answer.status, headers: Object.fromEntries(answer.headers), body: Stream.make(bytes) }
  })
  const doorNode = yield* webHandler(
    {},
    Layer.mergeAll(
      both,
      Layer.mock(WebRtcViewers, {
        ...noViewers,
        watch: () => Effect.fail(new WatchUnknown()),
      }),
      Layer.mock(Serving, { ofStream: () => Effect.succeed({ nodeId: server, name: "server" }) }),
      Layer.mock(Peers, { send }),
    ),
  )
  const atDoor = (by: NodeId, method: string, where: string, more: RequestInit = {}) =>
    asked(doorNode, by, method, where, more)
  return { life, atDoor }
})

/** Whether the session may go on, `ms` from now. */
const holdsAfter = (holder: WatchHolder, ms: number) =>
  Effect.gen(function*() {
    const clock = yield* Clock.Clock
    const at = () => clock.currentTimeMillisUnsafe() + ms
    const later = Object.assign(Object.create(clock) as Clock.Clock, {
      currentTimeMillisUnsafe: at,
      currentTimeMillis: Effect.sync(at),
    })
    return yield* Effect.provideService(holder.holds, Clock.Clock, later)
  })

it.live("an offer is handed on to the member that serves the stream, and its session is renewed and ended through the door", () =>
  Effect.gen(function*() {
    const { atDoor, life } = yield* stage
    const opened = yield* atDoor(away, "POST", path, { body: "v=0 offered" })
    assert.strictEqual(opened.status, 201)
    assert.strictEqual(yield* Effect.promise(() => opened.text()), "v=0 answered")
    assert.strictEqual(opened.headers.get("location"), `${path}/${sessionId}`)
    assert.strictEqual(life.passed[0]?.onBehalfOf, "eve (away)")
    assert.strictEqual(life.holder?.id, `peer:${door}:eve (away)`)

    // Nobody else renews or ends it; what is not known is not passed on.
    const renew = `${path}/${sessionId}/renew`
    assert.strictEqual((yield* atDoor(door, "POST", renew)).status, 404)
    assert.strictEqual((yield* atDoor(away, "POST", renew.replace("sss", "ttt"))).status, 404)
    assert.lengthOf(life.passed, 1)
    assert.strictEqual((yield* atDoor(away, "POST", renew)).status, 204)
    assert.strictEqual((yield* atDoor(away, "DELETE", `${path}/${sessionId}`)).status, 204)
    assert.isTrue(life.closed)
    assert.strictEqual((yield* atDoor(away, "POST", renew)).status, 404)
  }))

it.live("a session ends by itself 15 s after the last word of the viewer's node, whose grants are judged at the door", () =>
  Effect.gen(function*() {
    const { atDoor, life } = yield* stage
    yield* atDoor(away, "POST", path, { body: "v=0 offered" })
    const holder = life.holder!
    assert.isTrue(yield* holdsAfter(holder, 10_000))
    assert.isFalse(yield* holdsAfter(holder, 15_001))
    yield* Effect.sleep(20)
    assert.strictEqual((yield* atDoor(away, "POST", `${path}/${sessionId}/renew`)).status, 204)
    assert.isTrue(yield* holdsAfter(holder, 14_000))

    life.granted = false
    const passed = life.passed.length
    assert.strictEqual((yield* atDoor(away, "POST", `${path}/${sessionId}/renew`)).status, 404)
    assert.lengthOf(life.passed, passed)
    assert.isFalse(yield* holdsAfter(holder, 15_001))
  }))

it.live("what was handed on is not handed on again", () =>
  Effect.gen(function*() {
    const { atDoor, life } = yield* stage
    const again = yield* atDoor(door, "POST", path, { body: "v=0", headers: { "nightjar-passed-on": "1" } })
    assert.strictEqual(again.status, 404)
    assert.lengthOf(life.passed, 0)
  }))
