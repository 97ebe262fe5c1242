/**
 * The service `FederatedChannels`, and how a new list of a node's channels is brought in line with the ids that they have here.
 *
 * Invariants
 * 1. A channel that was known keeps its id, whatever else of it changed; one that is not told of keeps it for its return.
 */
import { FederatedChannels } from "#actors/protocol/bff-federation.ts"
import { FederatedChannelStore } from "#actors/store/bff-federation.ts"
import type { FederatedChannel, OfferedChannel } from "#schema/bff-federation.ts"
import { ChannelId } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { Effect, Layer } from "effect"

const cursor = cursorOf("federation-channels", ChannelId)

/** What a new list means for the mapping. */
export interface Remapping {
  /** Without an id yet. */
  readonly added: ReadonlyArray<OfferedChannel>
  readonly changed: ReadonlyArray<OfferedChannel & { readonly id: ChannelId }>
  readonly gone: ReadonlyArray<ChannelId>
}

const recordingsText = (one: Pick<OfferedChannel, "recordings">): string =>
  one.recordings.map(({ recordingToken, role }) => `${recordingToken} ${role}`).sort().join()

const same = (known: FederatedChannel, told: OfferedChannel): boolean =>
  known.present && known.remoteCameraId === told.cameraId && known.channelName === told.channelName &&
  known.cameraName === told.cameraName && known.active === told.active && recordingsText(known) === recordingsText(told)

/** Compares what is known of a node with what it tells now; of a channel that it tells twice the last word counts. */
export const compare = (known: ReadonlyArray<FederatedChannel>, told: ReadonlyArray<OfferedChannel>): Remapping => {
  const offered = new Map(told.map((one) => [one.channelId, one]))
  const here = new Map(known.map((one) => [one.remoteChannelId, one]))
  const unique = [...offered.values()]
  return {
    added: unique.filter(({ channelId }) => !here.has(channelId)),
    changed: unique.flatMap((one) => {
      const before = here.get(one.channelId)
      return before === undefined || same(before, one) ? [] : [{ ...one, id: before.id }]
    }),
    gone: known.filter((one) => one.present && !offered.has(one.remoteChannelId)).map(({ id }) => id),
  }
}

export const layer = Layer.effect(
  FederatedChannels,
  Effect.map(FederatedChannelStore, (store) =>
    FederatedChannels.of({
      list: Effect.fnUntraced(function*(nodeId, page, within) {
        let after = yield* cursor.decode(page.cursor)
        const rows: Array<FederatedChannel> = []
        // What is out of reach is passed over here: few are narrowed to channels of other nodes, and a page is soon full.
        while (rows.length <= page.limit) {
          const some: ReadonlyArray<FederatedChannel> = yield* store.list(nodeId, after, page.limit + 1)
          rows.push(...some.filter(({ id }) => within === "all" || within.channel.has(id)))
          after = some.at(-1)?.id ?? null
          if (some.length <= page.limit) break
        }
        return pageFrom({ rows, limit: page.limit, cursor, position: ({ id }) => id, item: (row) => row })
      }),
      get: store.get,
      byToken: store.byToken,
      ofSubject: store.ofSubject,
      missing: Effect.fnUntraced(function*(ids) {
        const known = ids.length === 0 ? new Set<string>() : yield* store.known(ids)
        return new Set(ids.filter((id) => !known.has(id)))
      }),
    })),
)
