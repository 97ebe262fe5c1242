/**
 * The door to pictures of live streams: the newest key picture as a JPEG, for tiles, thumbnails and mails. Its room: `media/still/`.
 *
 * Invariants
 * 1. Nothing is decoded in this process: a child process of low priority does it (FFmpeg by node-av, which is optional), which gets
 *    bytes and gives bytes, reads no network and no file, and is killed when it takes too long or too much memory.
 * 2. A picture is decoded once for each width, however many ask; who asks while it is decoded waits for that.
 * 3. Bounded: streams looked at, pictures that wait to be decoded (the newest of each stream alone), bytes of JPEG kept.
 * 4. What is shown is fresh: of a camera that has been away for {@link freshMs} there is no picture.
 */
import type { EpochMs, StreamId } from "#schema/common.ts"
import { Context, Data, type Effect } from "effect"

/** Nothing older is shown. */
export const freshMs = 30_000

/** This node does not serve the stream. */
export class StillUnknown extends Data.TaggedError("StillUnknown") {}
/** The camera has sent no key picture of late. */
export class StillSilent extends Data.TaggedError("StillSilent") {}
/** This machine cannot decode pictures. */
export class StillUnsupported extends Data.TaggedError("StillUnsupported")<{ readonly reason: string }> {}
/** This picture could not be decoded, or the decoder is being started again. */
export class StillFailed extends Data.TaggedError("StillFailed")<{ readonly reason: string }> {}
/** Too many ask at once. */
export class StillBusy extends Data.TaggedError("StillBusy") {}

export type StillError = StillUnknown | StillSilent | StillUnsupported | StillFailed | StillBusy

export interface Still {
  readonly jpeg: Uint8Array
  /** When the picture arrived. */
  readonly atMs: EpochMs
  /** Entity tag without quotes: changes with the picture and the width. */
  readonly etag: string
}

export class Stills extends Context.Service<Stills, {
  /** `width` in pixels; a narrower picture keeps its own. A stream that nobody watches is connected to for it, and ten seconds longer. */
  readonly newest: (streamId: StreamId, width: number) => Effect.Effect<Still, StillError>
}>()("nightjar/media/Stills") {}
