/**
 * Footage that another node recorded for its home node, on its way home.
 *
 * Invariants
 * 1. A job belongs to one reroute, lives on the node that served, and survives restarts of both nodes.
 * 2. A segment leaves the serving node only after the home node's signed receipt, or by retention.
 */
import type { NodeId, PageOf, PageRequest } from "#schema/common.ts"
import type {
  RecordBackJob,
  RecordBackNoRoom,
  RecordBackNotFound,
  RecordBackRefused,
  RecordBackSessionNotFound,
  RecordBackStateConflict,
  SegmentHead,
  SegmentInvalid,
  SegmentsTaken,
  SessionAnswer,
  SessionRequest,
  TransferKey,
  TransferKeyExpired,
} from "#schema/federation-recordback.ts"
import type { RecordBackProgress } from "#schema/federation.ts"
import type { Slot } from "#schema/ownership.ts"
import type { DependencyUnavailable, InvalidCursor } from "#schema/problem.ts"
import { Context, type Effect, type Stream } from "effect"

/** What is brought home: everything this node recorded in `slot` with an epoch from `firstEpoch` to `lastEpoch`. */
export interface RecordBackOrder {
  /** UUIDv7 of the reroute; beginning the same one again changes nothing. */
  readonly rerouteId: string
  readonly homeNodeId: NodeId
  /** The slot of the home node, as this node knows it. */
  readonly slot: Slot
  readonly firstEpoch: number
  readonly lastEpoch: number
}

export class RecordBacks extends Context.Service<RecordBacks, {
  readonly begin: (order: RecordBackOrder) => Effect.Effect<void, DependencyUnavailable>
  /** Null: no such job. */
  readonly progressOf: (rerouteId: string) => Effect.Effect<RecordBackProgress | null, DependencyUnavailable>
  /** Nothing is left to come home: all of it is there, or what is not has left this node as well. */
  readonly isOver: (rerouteId: string) => Effect.Effect<boolean, DependencyUnavailable>
  /** Reroutes whose progress changed, as it happens. */
  readonly changes: () => Effect.Effect<Stream.Stream<string>, DependencyUnavailable>
}>()("nightjar/actors/RecordBacks") {}

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>
type OfJob = Answer<RecordBackJob, RecordBackNotFound | RecordBackStateConflict>

/** The jobs of this node, for administrators. */
export class RecordBackJobs extends Context.Service<RecordBackJobs, {
  /** Newest first. */
  readonly list: (page: PageRequest) => Answer<PageOf<RecordBackJob>, InvalidCursor>
  /** What is on its way is let go; what came home stays there. */
  readonly pause: (id: string) => OfJob
  readonly resume: (id: string) => OfJob
  /** At once, also what could not be brought home before. */
  readonly retry: (id: string) => OfJob
}>()("nightjar/actors/RecordBackJobs") {}

/** This node as the home of footage that `from`, a node that is known by its proof, brings. */
export class RecordBackHome extends Context.Service<RecordBackHome, {
  readonly transferKey: () => Answer<TransferKey>
  readonly open: (
    from: NodeId,
    request: SessionRequest,
  ) => Answer<SessionAnswer, RecordBackRefused | TransferKeyExpired | SegmentInvalid | RecordBackNoRoom>
  /** Takes the sealed bytes of a segment as they come. A stream that fails leaves nothing but what the next try overwrites. */
  readonly take: <E>(
    from: NodeId,
    head: SegmentHead,
    sealed: Stream.Stream<Uint8Array, E>,
  ) => Answer<SegmentsTaken, E | RecordBackRefused | RecordBackSessionNotFound | SegmentInvalid | RecordBackNoRoom>
}>()("nightjar/actors/RecordBackHome") {}
