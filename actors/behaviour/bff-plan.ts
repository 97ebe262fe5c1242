/**
 * What a replay is sewn from: which node shows which stretch, and a session at each.
 *
 * Invariants
 * 1. What a member of the cluster has that is away is left out, and the answer is partial; where nothing else is there, its name is told.
 * 2. What has gone to another node between the plan and its opening, or what is not shown any more then, is looked for anew. What is
 *    where it was and is not shown stands: its pictures are too young to be told of.
 */
import { listedIn } from "#media/hls-moment.ts"
import { strayMs } from "#media/hls-seam.ts"
import type { FederatedSource } from "#schema/bff-federation.ts"
import type { EpochMs, Interval, NodeId, RecordingToken, ReplaySessionId } from "#schema/common.ts"
import { PeerUnreachable } from "#schema/federation.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { InvalidInput } from "#schema/problem.ts"
import { FootageNotFound, type ReplayUriRequest } from "#schema/replay.ts"
import { Effect, Result } from "effect"
import type { makeHolders, PlaylistName } from "./bff-holders.ts"
import type { makeSources } from "./bff-sources.ts"
import { type HeldTimeline, type Stretch, stretchesOf } from "./bff-timeline.ts"

/** Changes of the node within one session. */
export const mostParts = 64
/** Footage moves once; a second time is somebody else's. */
const mostTurns = 3
/** The home node has it by then: it goes where it was only after its receipt. */
const movedPause = "500 millis"

/** What two nodes record at once they tell of a little apart. One that is behind by more has ended. */
const goesOnMs = 6_000

/** What one node shows of a session. */
export interface Part {
  readonly holder: NodeId
  readonly sessionId: ReplaySessionId
  /** The newest playlists that came from the holder. */
  readonly texts: Map<PlaylistName, string>
  /** Another node has gone on: these playlists do not change any more. */
  closed: boolean
}

/** Whose footage, shown to whom. */
export interface Asked {
  readonly request: ReplayUriRequest
  readonly who: UserPrincipal
  readonly paired: Parameters<Effect.Success<typeof makeSources>>[3]
}

/** The last group of what may still grow is not told of, nor is what a slow disk holds back. */
const heldBackMs = 15_000
/** By which a stretch may be told of otherwise a moment later. */
const looseMs = 1_000

/** Segments that a playlist names. */
export const segmentsIn = (text: string): number => text.split("#EXTINF:").length - 1

export const endOf = (end: EpochMs | undefined) => end === undefined ? {} : { end }

/** A playlist of a stretch leaves out more than what is too young to be told of. */
const lacks = (text: string | null, { recordedMs }: Stretch): boolean => {
  const listed = text === null ? [] : listedIn(text)
  if (text === null || listed.length === 0) return true
  const listedMs = listed.reduce((sum, { end, start }) => sum + end - start, 0)
  return listedMs + (text.includes("#EXT-X-ENDLIST") ? looseMs : heldBackMs) < recordedMs
}

/** The same nodes have as much as before. */
const stands = (before: ReadonlyArray<Stretch>, now: ReadonlyArray<Stretch>): boolean =>
  before.length === now.length &&
  before.every(({ holder, recordedMs }, at) => now[at]?.holder === holder && now[at].recordedMs >= recordedMs - looseMs)

/** Why there is nothing to show. */
const nothing = (sources: ReadonlyArray<FederatedSource>, { end, start }: ReplayUriRequest) => {
  const away = sources.find(({ state }) => state === "unreachable")
  return away === undefined ?
    new FootageNotFound({ start, end: end ?? null }) :
    new PeerUnreachable({ nodeId: away.nodeId, reason: `the node "${away.name}" has this footage and is away` })
}

/** What of a holder comes behind a moment. The one that was shown up to there has ended then. */
const behind = ({ spans, ...held }: HeldTimeline, from: EpochMs, shown: NodeId | null): HeldTimeline => ({
  ...held,
  spans: spans.flatMap((span) =>
    span.end <= from + strayMs || (held.holder === shown && span.start <= from + strayMs) ?
      [] :
      [{ ...span, start: Math.max(span.start, from) }]
  ),
})

const hasMoved = ({ _tag }: { readonly _tag: string }) => _tag === "FootageNotFound" || _tag === "RecordingNotFound"

export const makePlans = (gather: Effect.Success<typeof makeSources>, holders: Effect.Success<typeof makeHolders>) => {
  const plan = Effect.fnUntraced(
    function*(token: RecordingToken, within: Interval, { paired, who }: Pick<Asked, "paired" | "who">) {
      const { away, held, sources, spans, ...rest } = yield* gather(token, within, who.username, paired)
      const shown = spans.filter(({ holder }) => !away.has(holder))
      const lost = new Set(spans.flatMap(({ holder }) => away.has(holder) ? [holder] : []))
      return {
        partial: rest.partial || lost.size > 0,
        sources: sources.map((source): FederatedSource =>
          lost.has(source.nodeId) ? { ...source, state: "unreachable", detail: "it does not answer" } : source
        ),
        spans: shown,
        held: held.filter(({ holder }) => !away.has(holder)),
        stretches: stretchesOf(held.filter(({ holder }) => !away.has(holder))),
      }
    },
  )

  /** Opens what is to be shown of each stretch; the last one grows where the session does. `from`: up to there it is shown already. */
  const openParts = (
    stretches: ReadonlyArray<Stretch>,
    { request: { end, recordingToken, speed }, who }: Pick<Asked, "request" | "who">,
    from: EpochMs | null = null,
  ) =>
    Effect.forEach(stretches, ({ holder, joined, ...stretch }, at) =>
      Effect.map(
        holders.open(holder, {
          recordingToken,
          start: stretch.start,
          ...endOf(at < stretches.length - 1 ? stretch.end : end),
          ...(stretch.start === from ? { startsAtKey: true } : {}),
          ...(joined ? { endsAtKey: true } : {}),
          ...(speed === undefined ? {} : { speed }),
        }, who),
        (sessionId): Part => ({ holder, sessionId, texts: new Map(), closed: false }),
      ), { concurrency: 4 })

  /** Whether each part shows what was planned of it. A holder that cannot be asked now is asked again by the player. */
  const showAll = (parts: ReadonlyArray<Part>, stretches: ReadonlyArray<Stretch>) =>
    Effect.map(
      Effect.forEach(parts, ({ holder, sessionId, texts }, at) =>
        holders.playlist(holder, sessionId, "playlist.m3u8").pipe(
          Effect.map((text) => {
            if (text !== null && segmentsIn(text) > 0) texts.set("playlist.m3u8", text)
            return !lacks(text, stretches[at] as Stretch)
          }),
          Effect.catch((error) =>
            Effect.as(
              Effect.logDebug("What a part of a replay shows could not be asked", { holder, reason: error.message }),
              true,
            )
          ),
        ), { concurrency: 4 }),
      (all) =>
        all.every((shows) =>
          shows
        ),
    )

  /** A session at each node that has something of it. */
  const begin = Effect.fnUntraced(function*(asked: Asked, nowMs: EpochMs) {
    const { request } = asked
    const { end, recordingToken: token, start } = request
    const planning = plan(token, { start, end: end ?? nowMs }, asked)
    let planned = yield* planning
    for (let turn = 1;; turn++) {
      const { sources, stretches } = planned
      if (stretches.length === 0) return yield* nothing(sources, request)
      if (stretches.length > mostParts) {
        return yield* InvalidInput.at(
          "/payload/end",
          `the nodes change more than ${mostParts} times within; ask for less`,
        )
      }
      const opened = yield* Effect.result(openParts(stretches, asked))
      if (Result.isFailure(opened)) {
        if (turn === mostTurns || !hasMoved(opened.failure)) return yield* Effect.fail(opened.failure)
        yield* Effect.sleep(movedPause)
        planned = yield* planning
        continue
      }
      const parts = opened.success
      const begun = { ...planned, parts }
      // Of a node that has it all for itself nothing moves; what grows may not have begun.
      const told = end === undefined ? parts.slice(0, -1) : parts
      if (turn === mostTurns || sources.length === 1 || (yield* showAll(told, stretches))) return begun
      planned = yield* planning
      if (stands(stretches, planned.stretches)) return begun
    }
  })

  /** Where another node goes on behind what was shown of one; null: that one goes on itself. What it has told of by now is told by `told`. */
  const onwards = Effect.fnUntraced(function*<E, R>({ nowMs, of, seenTo, ...asked }: Asked & {
    readonly of: NodeId | null
    readonly seenTo: EpochMs
    readonly nowMs: EpochMs
  }, told: Effect.Effect<string | null, E, R>) {
    const { held } = yield* plan(asked.request.recordingToken, { start: seenTo, end: nowMs }, asked)
    const reached = (some: ReadonlyArray<HeldTimeline>) =>
      some.reduce((far, { spans }) => spans.reduce((end, span) => Math.max(end, span.end), far), seenTo)
    const own = reached(held.filter(({ holder }) => holder === of))
    const all = reached(held)
    if (all - own < goesOnMs) return { parts: [], seenTo: own }
    const from = listedIn((yield* told) ?? "").at(-1)?.end ?? own
    const stretches = stretchesOf(held.map((one) => behind(one, from, of)))
    return { parts: yield* openParts(stretches.slice(0, mostParts), asked, from), seenTo: all }
  })

  return { begin, onwards, plan }
}
