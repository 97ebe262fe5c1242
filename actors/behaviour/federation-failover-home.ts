/**
 * What a home node tells: its configuration to guardians that may have it, and who they are. How its cameras come back is in
 * `federation-failover-return.ts`.
 *
 * Invariants
 * 1. The configuration with passwords goes to a granted guardian alone, encrypted to its key.
 * 2. A node with a database of its own guards no member of a cluster: there the database decides who controls, which it cannot see.
 */
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { sealBundle } from "#cluster/bundle.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { NodeId } from "#schema/common.ts"
import type { FailoverBundle } from "#schema/federation-bundle.ts"
import { type BundleAnswer, GuardedByCluster, type Guardian, GuardianNotGranted } from "#schema/federation-failover.ts"
import { NodeNotFound } from "#schema/federation.ts"
import { Clock, Effect } from "effect"
import { createHash } from "node:crypto"
import { ingestOf } from "./federation-failover-capacity.ts"

/** What this node's configuration is known by; it tells nothing of it. */
const digestOf = (...marks: ReadonlyArray<string>) => createHash("sha256").update(marks.join("\n")).digest("base64url")

export const makeHome = (name: string) =>
  Effect.gen(function*() {
    const [store, ownership, peers] = yield* Effect.all([FailoverStore, Ownership, Peers])
    const [cameraBundles, recordBundles] = yield* Effect.all([CameraBundles, RecordBundles])
    const identity = yield* NodeIdentity
    const { nodeId, slot } = ownership
    const epochNow = Effect.map(ownership.epochOf(slot), (epoch) => epoch ?? 0)

    const digest = Effect.gen(function*() {
      return digestOf(nodeId, yield* cameraBundles.mark(slot), yield* recordBundles.mark(slot))
    })

    const bundle = Effect.fn("Failovers.bundle")(function*(asker: NodeId) {
      const guardian = yield* peers.get(asker)
      if (!guardian.guardianGranted) {
        yield* store.noteGuardian(nodeId, asker, yield* Clock.currentTimeMillis)
        return yield* new GuardianNotGranted({ nodeId: asker })
      }
      // First: what changes meanwhile is another digest, and is fetched again.
      const mark = yield* digest
      const cameras = yield* cameraBundles.export(slot)
      const recordings = yield* recordBundles.export(slot)
      const ingestBps = ingestOf(cameras, recordings, yield* recordBundles.rates(slot))
      const madeMs = yield* Clock.currentTimeMillis
      const epoch = yield* epochNow
      const whole: FailoverBundle = {
        format: "nightjar-failover-bundle",
        version: 1,
        homeNodeId: nodeId,
        guardianNodeId: asker,
        name,
        madeMs,
        epoch,
        digest: mark,
        ingestBps,
        cameras,
        recordings,
      }
      const sealed = yield* sealBundle(whole, guardian).pipe(Effect.provideService(NodeIdentity, identity))
      const cameraNames = cameras.map((camera) => camera.name)
      yield* store.noteBundle(nodeId, asker, { atMs: madeMs, digest: mark, cameraNames })
      return { homeNodeId: nodeId, digest: mark, madeMs, epoch, bundle: sealed } satisfies BundleAnswer
    })

    const guardians = Effect.gen(function*() {
      const [rows, known] = [yield* store.guardians(nodeId), yield* peers.list()]
      const byId = new Map(known.map((peer) => [peer.nodeId, peer]))
      const asked = rows.map((row): Guardian => {
        const peer = byId.get(row.nodeId)
        const granted = peer?.guardianGranted === true
        return {
          nodeId: row.nodeId,
          name: peer?.name ?? "",
          granted,
          askedAt: row.askedMs,
          bundleAt: row.bundleMs,
          bundleDigest: row.bundleDigest,
          passwordsToChange: granted ? [] : row.cameraNames,
        }
      })
      const rest = known.filter((peer) => peer.guardianGranted && !rows.some((row) => row.nodeId === peer.nodeId))
      const nowMs = yield* Clock.currentTimeMillis
      return [
        ...asked,
        ...rest.map((peer): Guardian => ({
          nodeId: peer.nodeId,
          name: peer.name,
          granted: true,
          askedAt: nowMs,
          bundleAt: null,
          bundleDigest: null,
          passwordsToChange: [],
        })),
      ]
    })
    const guardianOf = Effect.fnUntraced(function*(asker: NodeId) {
      const one = (yield* guardians).find((guardian) => guardian.nodeId === asker)
      return one ?? (yield* new NodeNotFound({ nodeId: asker }))
    })

    return {
      digest,
      epoch: epochNow,
      bundle,
      guardians,
      grant: Effect.fn("Failovers.grant")(function*(guardian: NodeId, granted: boolean) {
        const { relation } = yield* peers.get(guardian)
        const inCluster = (yield* peers.list()).some((peer) => peer.relation === "member")
        if (granted && relation === "peer" && inCluster) return yield* new GuardedByCluster()
        yield* peers.grantGuardian(guardian, granted)
        yield* store.noteGuardian(nodeId, guardian, yield* Clock.currentTimeMillis)
        return yield* guardianOf(guardian)
      }),
    }
  })
