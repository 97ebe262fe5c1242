/** {@link Serving}, from who owns slots and who answers. */
import { type OtherMember, Serving } from "#actors/protocol/camera-serving.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { Members } from "#cluster/members.ts"
import { Ownership } from "#cluster/ownership.ts"
import { Presence, type Server, serverAway } from "#cluster/presence.ts"
import type { NodeId } from "#schema/common.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Effect, Layer } from "effect"

const make = Effect.gen(function*() {
  const [cameras, members, ownership, presence] = yield* Effect.all([CameraStore, Members, Ownership, Presence])

  const there = (server: Server | null): Effect.Effect<OtherMember | null, DependencyUnavailable> =>
    server?.state === "offline" ? Effect.fail(serverAway(server.name)) : Effect.succeed(server)
  const member = (nodeId: NodeId) => Effect.flatMap(presence.member(nodeId), there)

  return Serving.of({
    ofStream: Effect.fnUntraced(function*(id) {
      const cameraId = yield* cameras.cameraOf({ streamId: id })
      const home = cameraId === null ? null : yield* cameras.home(cameraId)
      return home === null ? null : yield* there(yield* presence.serverOf(home.slot))
    }),
    atHome: Effect.fnUntraced(function*(slot) {
      const found = (yield* members.list).find((one) => one.slot === slot)
      return found === undefined ? null : yield* member(found.nodeId)
    }),
    member,
    slot: () => Effect.succeed(ownership.slot),
  })
})

export const layer: Layer.Layer<Serving, never, CameraStore | Members | Ownership | Presence> = Layer.effect(
  Serving,
  make,
)
