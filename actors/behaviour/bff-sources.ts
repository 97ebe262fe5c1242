/**
 * Asking all nodes that may hold footage of a recording, this one among them, at once.
 *
 * Invariants
 * 1. A node that does not answer within {@link sourceLimit} is told as unreachable; the others' answers stand.
 * 2. Members of the cluster share this node's index, so only paired nodes are asked for theirs.
 */
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import type { FederatedSource } from "#schema/bff-federation.ts"
import type { Interval, RecordingToken } from "#schema/common.ts"
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
  readonly partial: boolean
  readonly sources: ReadonlyArray<FederatedSource>
}

interface Word {
  readonly source: FederatedSource
  readonly held: HeldTimeline | null
}

const timelinePath = (token: RecordingToken, { end, start }: Interval) =>
  `/search/api/v1/recordings/${token}/timeline?start=${new Date(start).toISOString()}&end=${
    new Date(end).toISOString()
  }`

export const makeSources = Effect.gen(function*() {
  const [identity, peers, recordings] = yield* Effect.all([NodeIdentity, Peers, Recordings])

  const own = (token: RecordingToken, interval: Interval) =>
    recordings.footage(token, interval).pipe(
      Effect.map(({ gaps, spans }): Word => ({
        source: { nodeId: identity.nodeId, name: "", state: "ok", detail: "" },
        held: { holder: identity.nodeId, spans, gaps },
      })),
      Effect.catchTag("RecordingNotFound", () =>
        Effect.succeed<Word>({
          source: { nodeId: identity.nodeId, name: "", state: "nothing", detail: "" },
          held: null,
        })),
    )

  const theirs = ({ name, nodeId }: Peer, token: RecordingToken, interval: Interval, onBehalfOf: string) => {
    const silent = (state: FederatedSource["state"], detail: string): Word => ({
      source: { nodeId, name, state, detail },
      held: null,
    })
    return peers.call(
      nodeId,
      { method: "GET", path: timelinePath(token, interval), onBehalfOf, timeout: sourceLimit },
      Timeline,
    ).pipe(
      Effect.map(({ gaps, spans }): Word => ({
        source: { nodeId, name, state: "ok", detail: "" },
        held: { holder: nodeId, spans, gaps },
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
  return Effect.fn("Federated.gather")(
    function*(
      token: RecordingToken,
      interval: Interval,
      onBehalfOf: string,
    ): Effect.fn.Return<Gathered, RecordingNotFound | InvalidInput | DependencyUnavailable> {
      const paired = (yield* peers.list()).filter(({ relation }) => relation === "peer")
      const [mine, others] = yield* Effect.all([
        own(token, interval),
        Effect.forEach(paired, (peer) => theirs(peer, token, interval, onBehalfOf), { concurrency }),
      ], { concurrency: 2 })
      const words = [mine, ...others]
      const sources = words.map(({ source }) => source)
      if (sources.every(({ state }) => state === "nothing")) return yield* new RecordingNotFound({ id: token })
      const held = words.flatMap((word) => word.held === null ? [] : [word.held])
      return {
        ...uniteTimelines(held),
        partial: sources.some(({ state }) => state === "unreachable" || state === "refused"),
        sources,
      }
    },
  )
})
