/**
 * Asking all nodes that may hold footage of a recording, this one among them, at once.
 *
 * Invariants
 * 1. A node that does not answer within {@link sourceLimit} is told as unreachable; the others' answers stand.
 * 2. Members of the cluster share this node's index, so only paired nodes are asked for theirs. What a member has that does not answer is
 *    told of, and cannot be shown (`away`).
 * 3. What moves between this node and another while they are asked is seen at one of them: this node is asked before and after.
 */
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { Presence } from "#cluster/presence.ts"
import type { FederatedSource } from "#schema/bff-federation.ts"
import type { Interval, NodeId, RecordingToken } from "#schema/common.ts"
import type { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import { Timeline } from "#schema/search.ts"
import { Duration, Effect } from "effect"
import { type HeldTimeline, type UnitedTimeline, uniteTimelines } from "./bff-timeline.ts"

/** Longer than a busy node takes for a day, shorter than a person waits. */
export const sourceLimit = Duration.seconds(3)
const concurrency = 16

/** What all holders together know of an interval. */
export interface Gathered extends UnitedTimeline {
  /** What each holder has, by itself. */
  readonly held: ReadonlyArray<HeldTimeline>
  readonly partial: boolean
  readonly sources: ReadonlyArray<FederatedSource>
  /** Members whose footage is known and cannot be shown now. */
  readonly away: ReadonlySet<NodeId>
}

interface Word {
  readonly source: FederatedSource
  readonly held: HeldTimeline | null
  /** A member that is known not to answer. */
  readonly away: boolean
}

/** What was told first counts where nothing is told any more. */
const eitherOf = (before: ReadonlyArray<Word>, now: ReadonlyArray<Word>): ReadonlyArray<Word> => {
  const holding = new Set(now.flatMap(({ held }) => held === null ? [] : [held.holder]))
  const gone = before.filter(({ held }) => held !== null && !holding.has(held.holder))
  const told = new Set(gone.map(({ source }) => source.nodeId))
  return [...now.filter(({ held, source }) => held !== null || !told.has(source.nodeId)), ...gone]
}

const recordedMs = ({ spans }: HeldTimeline): number => spans.reduce((sum, { end, start }) => sum + end - start, 0)

/** What a holder told first, where some of it has gone since: whoever has it now may have been asked before it came. */
const shrunk = (before: ReadonlyArray<Word>, now: ReadonlyArray<Word>): ReadonlyArray<HeldTimeline> =>
  before.flatMap(({ held }) => {
    const again = held === null ? undefined : now.find((word) => word.held?.holder === held.holder)?.held
    return held !== null && again !== undefined && again !== null && recordedMs(again) < recordedMs(held) ? [held] : []
  })

const timelinePath = (token: RecordingToken, { end, start }: Interval) =>
  `/search/api/v1/recordings/${token}/timeline?start=${new Date(start).toISOString()}&end=${
    new Date(end).toISOString()
  }`

export const makeSources = Effect.gen(function*() {
  const [identity, peers, presence, recordings] = yield* Effect.all([NodeIdentity, Peers, Presence, Recordings])

  /** Of this node and of every member that has some of it. */
  const own = Effect.fnUntraced(function*(token: RecordingToken, interval: Interval) {
    const known = yield* peers.list()
    const states = yield* Effect.forEach(known, ({ nodeId }) => presence.member(nodeId))
    const present = new Set(states.flatMap((one) => one === null || one.state === "offline" ? [] : [one.nodeId]))
    const { gaps, holders } = yield* recordings.holders(token, interval, present)
    return holders.map(({ holder: nodeId, spans }): Word => {
      const self = nodeId === identity.nodeId
      const name = known.find((peer) => peer.nodeId === nodeId)?.name ?? ""
      return {
        source: { nodeId, name, state: "ok", detail: "" },
        held: { holder: nodeId, spans, gaps: self ? gaps : [] },
        away: !self && !present.has(nodeId),
      }
    })
  }, (work) =>
    Effect.catchTag(work, "RecordingNotFound", () => {
      const source = { nodeId: identity.nodeId, name: "", state: "nothing", detail: "" } as const
      return Effect.succeed<ReadonlyArray<Word>>([{ source, held: null, away: false }])
    }))

  const theirs = ({ name, nodeId }: Peer, token: RecordingToken, interval: Interval, onBehalfOf: string) => {
    const silent = (state: FederatedSource["state"], detail: string): Word => ({
      source: { nodeId, name, state, detail },
      held: null,
      away: false,
    })
    return peers.call(
      nodeId,
      { method: "GET", path: timelinePath(token, interval), onBehalfOf, timeout: sourceLimit },
      Timeline,
    ).pipe(
      Effect.map(({ gaps, spans }): Word => ({
        source: { nodeId, name, state: "ok", detail: "" },
        held: { holder: nodeId, spans, gaps },
        away: false,
      })),
      Effect.timeoutOrElse({
        duration: sourceLimit,
        orElse: () => Effect.succeed(silent("unreachable", "it did not answer in time")),
      }),
      Effect.catchTag(
        "PeerRefused",
        (error) => Effect.succeed(error.theirStatus === 404 ? silent("nothing", "") : silent("refused", error.reason)),
      ),
      Effect.catchTag("PeerUnreachable", (error) => Effect.succeed(silent("unreachable", error.reason))),
      Effect.catchTag("NodeNotFound", () => Effect.succeed(silent("nothing", ""))),
    )
  }

  /** `RecordingNotFound` where every node has answered and none knows the token. */
  return Effect.fn("Federated.gather")(function*(
    token: RecordingToken,
    interval: Interval,
    onBehalfOf: string,
    paired: "paired nodes too" | "this cluster",
    /** Is not asked: it has said what it has. */
    without: NodeId | null = null,
  ): Effect.fn.Return<Gathered, RecordingNotFound | InvalidInput | DependencyUnavailable> {
    const asked = paired === "this cluster" ?
      [] :
      (yield* peers.list()).filter(({ nodeId, relation }) => relation === "peer" && nodeId !== without)
    const before = yield* own(token, interval)
    const others = yield* Effect.forEach(asked, (peer) => theirs(peer, token, interval, onBehalfOf), { concurrency })
    const now = asked.length === 0 ? before : yield* own(token, interval)
    const words = [...eitherOf(before, now), ...others].filter(({ held }) => held === null || held.holder !== without)
    const sources = words.map(({ source }) => source)
    if (sources.every(({ state }) => state === "nothing")) return yield* new RecordingNotFound({ id: token })
    const held = [...words.flatMap((word) => word.held === null ? [] : [word.held]), ...shrunk(before, now)]
    return {
      ...uniteTimelines(held),
      held,
      partial: sources.some(({ state }) => state === "unreachable" || state === "refused"),
      sources,
      away: new Set(words.flatMap(({ away, source }) => away ? [source.nodeId] : [])),
    }
  })
})
