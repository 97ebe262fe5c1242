/**
 * Whether this node could serve what it protects: pure accounting, over several takeovers at once.
 *
 * Invariants
 * 1. What is served now counts as used, not as reserved; reservations are honoured in the order of registration.
 * 2. Every shortage is told with what is needed and what is left.
 */
import { maxRingBytes, ringHoldMs } from "#media/shadow.ts"
import type { StreamId } from "#schema/common.ts"
import type { FailoverBundle } from "#schema/federation-bundle.ts"
import type { FailoverSettings } from "#schema/federation-failover.ts"
import type { CapacityNeed, NodeCapacity } from "#schema/federation.ts"

/** Assumed of a stream that was never measured, bits a second. */
const guessBps = { main: 4_000_000, sub: 1_000_000 } as const

/** What the recordings that are switched on bring, bits a second. */
export const ingestOf = (
  cameras: FailoverBundle["cameras"],
  recordings: FailoverBundle["recordings"],
  rates: ReadonlyMap<StreamId, number>,
): number => {
  const streams = new Map(
    cameras.flatMap(({ channels }) =>
      channels.flatMap((channel) =>
        channel.streams.map((stream) => [`${channel.id} ${stream.role}`, stream.id] as const)
      )
    ),
  )
  return recordings.filter(({ enabled }) => enabled).reduce((sum, { channelId, role }) => {
    const streamId = streams.get(`${channelId} ${role}`)
    return sum + ((streamId === undefined ? undefined : rates.get(streamId)) ?? guessBps[role])
  }, 0)
}

export const nothingNeeded: CapacityNeed = {
  cameras: 0,
  ingestBps: 0,
  diskBytesPerSecond: 0,
  diskBytes: 0,
  memoryBytes: 0,
}

export const sumOf = (needs: ReadonlyArray<CapacityNeed>): CapacityNeed =>
  needs.reduce((sum, need) => ({
    cameras: sum.cameras + need.cameras,
    ingestBps: sum.ingestBps + need.ingestBps,
    diskBytesPerSecond: sum.diskBytesPerSecond + need.diskBytesPerSecond,
    diskBytes: sum.diskBytes + need.diskBytes,
    memoryBytes: sum.memoryBytes + need.memoryBytes,
  }), nothingNeeded)

/** Seconds that a ring holds at most where a group of pictures is four seconds long; blocks that are filled in part. */
const ring = { seconds: ringHoldMs / 1_000 + 4, streamBytes: 1_048_576 } as const

/**
 * For so many cameras that bring so much, through the outage that is expected. `shadowed`: streams that are held in memory before
 * anything fails; what they bring then is what they would bring afterwards.
 */
export const needOf = (load: {
  readonly cameras: number
  readonly ingestBps: number
  readonly recorded: boolean
  readonly shadowed: number
}, settings: Pick<FailoverSettings, "expectedOutageHours">): CapacityNeed => {
  const diskBytesPerSecond = load.recorded ? Math.ceil(load.ingestBps / 8) : 0
  return {
    cameras: load.cameras,
    ingestBps: load.ingestBps,
    diskBytesPerSecond,
    diskBytes: diskBytesPerSecond * settings.expectedOutageHours * 3_600,
    memoryBytes: load.shadowed === 0 ?
      0 :
      Math.min(
        load.shadowed * maxRingBytes,
        Math.ceil(load.ingestBps / 8 * ring.seconds) + load.shadowed * ring.streamBytes,
      ),
  }
}

/** What is kept ready of a need: all of it, or while it is served what is wanted again as soon as the service ends. */
export const reservedOf = (need: CapacityNeed, serving: boolean): CapacityNeed =>
  serving ? { ...nothingNeeded, memoryBytes: need.memoryBytes } : need

export const totalOf = (settings: FailoverSettings, diskFreeBytes: number): NodeCapacity => ({
  cameras: settings.maxCameras,
  ingestBps: settings.maxIngestBps,
  diskBytesPerSecond: settings.maxDiskBytesPerSecond,
  diskFreeBytes,
  memoryBytes: settings.maxShadowMemoryBytes,
})

const shortage = (what: string, unit: string, needed: number, left: number) =>
  needed <= left ? [] : [`${what}: ${needed} ${unit} needed, ${Math.max(0, left)} left`]

/** Lines for what does not fit beside `taken`. */
export const shortOf = (total: NodeCapacity, taken: CapacityNeed, need: CapacityNeed): ReadonlyArray<string> => [
  ...shortage("cameras", "cameras", need.cameras, total.cameras - taken.cameras),
  ...shortage("ingest", "bit/s", need.ingestBps, total.ingestBps - taken.ingestBps),
  ...shortage("disk writes", "bytes/s", need.diskBytesPerSecond, total.diskBytesPerSecond - taken.diskBytesPerSecond),
  ...shortage("disk space", "bytes", need.diskBytes, total.diskFreeBytes - taken.diskBytes),
  ...shortage("memory", "bytes", need.memoryBytes, total.memoryBytes - taken.memoryBytes),
]

export interface Reservation {
  readonly id: string
  readonly need: CapacityNeed
  /** Served at the moment: its need is part of `used` already. */
  readonly serving: boolean
}

/** What would not fit of each, if all of them were taken over together. */
export const account = (
  total: NodeCapacity,
  used: CapacityNeed,
  reservations: ReadonlyArray<Reservation>,
): ReadonlyMap<string, ReadonlyArray<string>> => {
  const result = new Map<string, ReadonlyArray<string>>()
  let taken = used
  for (const { id, need, serving } of reservations) {
    result.set(id, serving ? [] : shortOf(total, taken, need))
    taken = sumOf([taken, reservedOf(need, serving)])
  }
  return result
}
