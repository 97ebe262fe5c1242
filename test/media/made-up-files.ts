/** Owners and fragments made up for storage tests: small, and distinct where they must be. */
import { makeFragmentBuilder } from "#media/fmp4.ts"
import type { FileIdentity, Fragment } from "#media/storage.ts"
import type { ChannelId, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import { camera } from "./access-units.ts"

const id = (kind: number, n: number) =>
  `01934b3e-${kind.toString(16).padStart(4, "0")}-7000-8000-${n.toString(16).padStart(12, "0")}`

export const identityOf = (n: number, epoch = 1): FileIdentity => ({
  recordingId: id(0xa, n) as RecordingId,
  recordingToken: id(0xb, n) as RecordingToken,
  streamId: id(0xc, n) as StreamId,
  channelId: id(0xd, n) as ChannelId,
  nodeId: id(0xe, n) as NodeId,
  epoch,
})

const small = camera({ video: "sub-320x180-10.h264", seconds: 0, startMs: 0 })

export const parameters: TrackParameters = small.parameters

/** `count` fragments of one second each from `startMs` on; pictures of `bytes` bytes, ten a fragment. */
export const fragmentsFrom = (startMs: number, count: number, bytes = 50): ReadonlyArray<Fragment> => {
  const fragments: Array<Fragment> = []
  const builder = makeFragmentBuilder({
    parameters,
    decodeTicks: 0,
    wallMs: (ticks) => startMs + ticks / 90,
    // A copy may be kept for as long as the test likes.
    onFragment: (fragment) => fragments.push({ ...fragment, data: Buffer.from(fragment.data), release: () => {} }),
  })
  for (let i = 0; i < count * 10; i++) {
    builder.push({
      track: "video",
      data: Buffer.alloc(bytes, i + 1),
      key: i % 20 === 0,
      ticks: i * 9_000,
      durationTicks: 0,
      arrivalMs: startMs + i * 100,
      senderMs: null,
    })
  }
  builder.flush()
  return fragments
}
