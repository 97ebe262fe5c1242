/**
 * Where the footage of a recording is asked for: of this node alone, or of all nodes that hold some of it, as one.
 *
 * Invariants
 * 1. Whether there are other nodes is asked once in {@link knownMs}; without any, nothing is asked of them.
 * 2. What a node did not tell is named: its footage is missing from the answer, not from the recording.
 */
import type { FederatedSource } from "#schema/bff-federation.ts"
import type { RecordingToken } from "#schema/common.ts"
import type { CalendarEntry } from "#schema/search.ts"
import { listNodes } from "./api-nodes.ts"
import { call, everything, openReplay, recordedDates, replayInfo, timelineOf } from "./api.ts"
import type { TimelineGap, TimelineSpan, View } from "./parts/timeline.tsx"
import { dayLength } from "./time.ts"

export interface Known {
  readonly spans: ReadonlyArray<TimelineSpan>
  readonly gaps: ReadonlyArray<TimelineGap>
  /** Each node that was asked; none where this node alone was. */
  readonly sources: ReadonlyArray<FederatedSource>
}

/** What is known of a month's days. */
export interface KnownDays {
  readonly dates: ReadonlyArray<CalendarEntry>
  /** A node did not answer: there may be more. */
  readonly partial: boolean
}

export interface Footage {
  /** Days with footage of a month (`YYYY-MM`), in a time zone. */
  readonly days: (month: string, timeZone: string) => Promise<KnownDays>
  readonly timeline: (within: View, columns: number) => Promise<Known>
  /** Path of a playlist; without `end` it grows with the recording. */
  readonly open: (start: number, end: number | undefined, speed: number) => Promise<{ readonly uri: string }>
  /** Epoch milliseconds of the newest picture; null where there is none. */
  readonly newest: () => Promise<number | null>
}

/** Columns of what is asked for to find the next footage. */
const few = 1000
/** Nodes are paired by people. */
const knownMs = 60_000
/** What all nodes together are asked for to find their newest footage. */
const newestWithin = 30 * dayLength

export const listFederated = () => everything((api, query) => api.bffFederation.federationChannels({ query }))

let others: { readonly until: number; readonly are: Promise<boolean> } | null = null

/** Whether other nodes may hold footage, as far as this user can know. */
const othersThere = (mayListNodes: boolean): Promise<boolean> => {
  if (others !== null && others.until > performance.now()) return others.are
  const channels = listFederated().then((items) => items.length > 0, () => false)
  const nodes = mayListNodes ?
    listNodes().then((items) => items.some(({ relation }) => relation === "peer"), () => false) :
    Promise.resolve(false)
  const are = Promise.all([channels, nodes]).then((some) => some.includes(true))
  others = { until: performance.now() + knownMs, are }
  return are
}

const ofThisNode = (token: RecordingToken): Footage => ({
  days: async (month, timeZone) => ({ dates: await recordedDates(token, month, timeZone), partial: false }),
  timeline: async (within, columns) => ({ ...await timelineOf(token, within, columns), sources: [] }),
  open: (start, end, speed) => openReplay(token, start, end, speed),
  newest: async () => (await replayInfo(token)).newest,
})

const ofAllNodes = (token: RecordingToken): Footage => {
  const timeline = async (within: View): Promise<Known> => {
    const { gaps, sources, spans } = await call((api) =>
      api.bffFederation.federatedTimeline({ params: { recordingToken: token }, query: within })
    )
    const names = new Map(sources.map(({ name, nodeId }) => [nodeId, name === "" ? "this node" : name]))
    return {
      spans: spans.map(({ end, holderNodeId, start }) => ({
        start,
        end,
        holder: names.get(holderNodeId) ?? holderNodeId,
      })),
      gaps: gaps.map((gap) => ({ ...gap, missingMs: gap.end - gap.start })),
      sources,
    }
  }
  return {
    days: (month, timeZone) =>
      call((api) =>
        api.bffFederation.federatedMonth({ params: { recordingToken: token }, query: { month, timeZone } })
      ),
    timeline,
    open: async (start, end, speed) =>
      (await call((api) =>
        api.bffFederation.federatedReplay({
          headers: {},
          payload: {
            recordingToken: token,
            start: Math.round(start),
            ...(end === undefined ? {} : { end: Math.round(end) }),
            ...(speed === 1 ? {} : { speed }),
          },
        })
      )).body,
    newest: async () => {
      const now = Date.now()
      return (await timeline({ start: now - newestWithin, end: now })).spans.at(-1)?.end ?? null
    },
  }
}

export const footageOf = async (token: RecordingToken, mayListNodes: boolean): Promise<Footage> =>
  await othersThere(mayListNodes) ? ofAllNodes(token) : ofThisNode(token)

/** The first footage after a moment; undefined where there is none yet. */
export const nextFootage = async (footage: Footage, from: number, now: number): Promise<View | undefined> =>
  (await footage.timeline({ start: from, end: now }, few)).spans[0]
