/**
 * What a guardian holds in memory of the cameras it shadows: which streams, since when, and what is told of it.
 *
 * Invariants
 * 1. Nothing is connected to before the home node's administrator has granted it and its configuration is here; everything is let go
 *    when either ends. A configuration that changed is followed.
 * 2. A camera is not connected to for its ring while it is tried whether it lets a second node in: the trial would be the third.
 * 3. Passwords are those of the configuration, opened in memory and put nowhere else.
 */
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { Ownership } from "#cluster/ownership.ts"
import { ringHoldMs, ShadowRings } from "#media/shadow.ts"
import type { ProtectionId, ShadowView } from "#schema/federation-failover.ts"
import { Effect, Stream } from "effect"
import { monotonicMs } from "./federation-failover-heartbeat.ts"
import type { FailoverSettingsKept } from "./federation-failover-settings.ts"
import type { Snapshots } from "./federation-failover-snapshot.ts"
import { type Configured, shadowedOf } from "./federation-failover-streams.ts"
import type { Takeover } from "./federation-failover-takeover.ts"
import type { Ward } from "./federation-failover-ward.ts"

/** After a failure to read the configuration. */
const againMs = 10_000
/** Cameras in trouble that are named. */
const mostTroubles = 64

/** What is shadowed now and by which configuration; empty: nothing. */
const markOf = (ward: Ward): string => {
  const { bundle, granted, released } = ward.state()
  return ward.row().class === "shadow" && granted && !released ? bundle.held ?? "" : ""
}

export const makeShadows = ({ settings, snapshots, takeover }: {
  readonly settings: FailoverSettingsKept
  readonly snapshots: Snapshots
  readonly takeover: Takeover
}) =>
  Effect.gen(function*() {
    const [cameraBundles, recordBundles, peers, ownership, rings] = yield* Effect.all([
      CameraBundles,
      RecordBundles,
      Peers,
      Ownership,
      ShadowRings,
    ])
    const marks = new Map<ProtectionId, { readonly mark: string; readonly againMs: number }>()
    yield* Effect.forkScoped(
      Stream.runForEach(settings.changes, ({ settings: all }) => rings.limit(all.maxShadowMemoryBytes)),
    )

    const configured = Effect.fnUntraced(function*(ward: Ward): Effect.fn.Return<Configured, unknown> {
      const peer = yield* peers.get(ward.row().homeNodeId)
      if (peer.relation === "peer") return yield* takeover.opened(peer)
      const own = (yield* ownership.owners).find(({ homeNodeId }) => homeNodeId === peer.nodeId)
      if (own === undefined) return { cameras: [], recordings: [] }
      const [cameras, recordings] = [yield* cameraBundles.export(own.slot), yield* recordBundles.export(own.slot)]
      return { cameras, recordings }
    })

    return {
      /** As often as one likes: it does something when something has changed. */
      follow: Effect.fnUntraced(function*(ward: Ward) {
        const { homeNodeId, id } = ward.row()
        const [mark, known] = [markOf(ward), marks.get(id)]
        if (mark === (known?.mark ?? "") || snapshots.isTrying(id)) return
        const now = yield* monotonicMs
        if (known !== undefined && now < known.againMs) return
        marks.set(id, { mark: known?.mark ?? "", againMs: now + againMs })
        const streams = mark === "" ? [] : shadowedOf(yield* configured(ward), ownership.nodeId)
        yield* rings.want(homeNodeId, streams)
        marks.set(id, { mark, againMs: 0 })
      }, (work, ward) =>
        Effect.catchCause(work, (cause) =>
          Effect.logWarning("The cameras of another node cannot be shadowed", {
            homeNodeId: ward.row().homeNodeId,
            cause,
          }))),
      /** Of a protection that is no more. */
      letGo: (ward: Ward) =>
        Effect.suspend(() => {
          marks.delete(ward.row().id)
          return rings.want(ward.row().homeNodeId, [])
        }),
      view: (ward: Ward): ShadowView | null => {
        if (markOf(ward) === "") {
          return null
        }
        const held = rings.status(ward.row().homeNodeId)
        return {
          streams: held.length,
          ready: held.filter(({ heldMs }) =>
            heldMs >= ringHoldMs
          ).length,
          holdMs: ringHoldMs,
          leastMs: held.length === 0 ? 0 : Math.round(Math.min(...held.map(({ heldMs }) => heldMs))),
          bytes: held.reduce((sum, { bytes }) => sum + bytes, 0),
          troubles: held.filter(({ reason }) => reason !== "").slice(0, mostTroubles)
            .map(({ cameraName, reason }) => ({ cameraName, reason })),
        }
      },
    }
  })
export type Shadows = Effect.Success<ReturnType<typeof makeShadows>>
