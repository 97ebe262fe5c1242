/**
 * Footage that a player was told of, and that has gone to another node since: as when what a guardian recorded has come home.
 *
 * Invariants
 * 1. Who has it now is asked anew, of all nodes; the one that had it last is asked first for what comes next.
 * 2. Pictures stand where the playlist that the player has says they do, whoever they come from.
 * 3. In memory, {@link mostFollowed} sessions at most; the oldest leaves first.
 */
import type { FileFound } from "#actors/protocol/bff-federation.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { intervalOf, listedIn, withoutGaps } from "#media/hls-moment.ts"
import { Hls } from "#media/hls.ts"
import type { EpochMs, Interval, NodeId, RecordingToken, ReplaySessionId } from "#schema/common.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import type { ReplayUriRequest } from "#schema/replay.ts"
import { Effect } from "effect"
import type { makeHolders } from "./bff-holders.ts"
import type { makeSources } from "./bff-sources.ts"
import type { HeldSpan } from "./bff-timeline.ts"

const mostFollowed = 512
/** Segments of a session that were found, or not, at another node. */
const mostDecided = 4_096

/** A session whose footage may have moved. */
export interface Moving {
  readonly id: string
  readonly token: RecordingToken
  readonly request: ReplayUriRequest
  readonly who: UserPrincipal
  readonly paired: Parameters<Effect.Success<typeof makeSources>>[3]
  readonly createdAt: EpochMs
}

interface Followed {
  /** Sessions at the nodes that had something. */
  readonly there: Map<NodeId, ReplaySessionId>
  last: NodeId | null
  /** Segments that a node calls gone, and whether another has them. */
  readonly decided: Map<string, boolean>
}

const overlap = (one: Interval, other: Interval): number =>
  Math.max(0, Math.min(one.end, other.end) - Math.max(one.start, other.start))

const hull = (all: ReadonlyArray<Interval>): Interval => ({
  start: Math.min(...all.map(({ start }) => start)),
  end: Math.max(...all.map(({ end }) => end)),
})

export const makeMoved = Effect.fnUntraced(
  function*(gather: Effect.Success<typeof makeSources>, holders: Effect.Success<typeof makeHolders>) {
    const [hls, identity, recordings] = yield* Effect.all([Hls, NodeIdentity, Recordings])
    const all = new Map<string, Followed>()
    const followedOf = (id: string): Followed => {
      const known = all.get(id)
      if (known !== undefined) return known
      const made: Followed = { there: new Map(), last: null, decided: new Map() }
      all.set(id, made)
      const [oldest] = all.keys()
      if (all.size > mostFollowed && oldest !== undefined) all.delete(oldest)
      return made
    }

    const here = Effect.fnUntraced(function*({ createdAt, request, token, who }: Moving, filename: string) {
      const { id: recordingId } = yield* recordings.byToken(token)
      const { end = null, speed = 1, start } = request
      const source = { recordingId, start, end, speed, createdAt }
      yield* hls.resource(source, filename)
      return { kind: "own", file: { ...source, token, filename, loginSessionId: who.sessionId } } satisfies FileFound
    })

    const there = Effect.fnUntraced(
      function*(moving: Moving, holder: NodeId, filename: string, headers: Readonly<Record<string, string>>) {
        const { there } = followedOf(moving.id)
        const sessionId = there.get(holder) ?? (yield* holders.open(holder, moving.request, moving.who))
        there.set(holder, sessionId)
        const media = yield* holders.file(holder, sessionId, filename, headers).pipe(Effect.tapError(() =>
          Effect.sync(() => there.delete(holder))
        ))
        return { kind: "relayed", media } satisfies FileFound
      },
    )

    /** Null: it has none of it, or cannot be asked. */
    const ask = Effect.fnUntraced(
      function*(moving: Moving, holder: NodeId, filename: string, headers: Readonly<Record<string, string>>) {
        const found: FileFound = holder === identity.nodeId ?
          yield* here(moving, filename) :
          yield* there(moving, holder, filename, headers)
        followedOf(moving.id).last = holder
        return found
      },
      (work, _, holder) =>
        work.pipe(Effect.catch((error) =>
          Effect.as(
            Effect.logDebug("Footage that has moved is not at this node", { holder, reason: error.message }),
            null,
          )
        )),
    )

    const holding = ({ paired, token, who }: Moving, within: Interval, without: NodeId) =>
      gather(token, within, who.username, paired, without).pipe(
        Effect.map(({ away, spans }): ReadonlyArray<HeldSpan> =>
          spans.filter(({ holder }) => holder !== without && !away.has(holder))
        ),
        Effect.catch((error) =>
          Effect.as(
            Effect.logDebug("Who has footage that has moved could not be asked", { reason: error.message }),
            [] as ReadonlyArray<HeldSpan>,
          )
        ),
      )

    return {
      /** A file by its name in words of time (see `media/hls-moment.ts`), from another node than `without`; null: nobody has it. */
      file: Effect.fn("Federated.moved")(
        function*(moving: Moving, without: NodeId, filename: string, headers: Readonly<Record<string, string>>) {
          const interval = intervalOf(filename)
          if (interval === null) {
            return null
          }
          const { last } = followedOf(moving.id)
          const again = last === null || last === without ? null : yield* ask(moving, last, filename, headers)
          if (again !== null) {
            return again
          }
          const spans = yield* holding(moving, interval, without)
          const most = new Map<NodeId, number>()
          for (const span of spans) {
            most.set(span.holder, (most.get(span.holder) ?? 0) + overlap(span, interval))
          }
          for (
            const [holder] of [...most].sort((a, b) =>
              b[1] - a[1]
            )
          ) {
            const found = holder === last ? null : yield* ask(moving, holder, filename, headers)
            if (found !== null) {
              return found
            }
          }
          return null
        },
      ),
      /** A growing playlist of `without` in which what others have now is not called gone. */
      playlist: Effect.fn("Federated.unmoved")(function*(moving: Moving, without: NodeId, text: string) {
        const gone = text.includes("#EXT-X-GAP") ?
          listedIn(text).filter(({ gap }) => gap) :
          []
        if (gone.length === 0) return text
        const { decided } = followedOf(moving.id)
        const open = gone.filter(({ name }) => !decided.has(name))
        if (open.length > 0) {
          const spans = yield* holding(moving, hull(open), without)
          for (const one of open.slice(-mostDecided)) {
            decided.set(one.name, 2 * spans.reduce((sum, span) => sum + overlap(span, one), 0) > one.end - one.start)
          }
          for (const name of decided.keys()) {
            if (decided.size <= mostDecided) break
            decided.delete(name)
          }
        }
        return withoutGaps(text, new Set(gone.flatMap(({ name }) => decided.get(name) === true ? [name] : [])))
      }),
    }
  },
)
