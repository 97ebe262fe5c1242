/** An offer to watch by WebRTC, answered: for those who come with a stream's token, and for other nodes. */
import { type WatchHolder, WebRtcViewers } from "#media/webrtc-viewers.ts"
import { CameraUnreachable } from "#schema/camera-device.ts"
import { NotForWebRtc, OfferRefused } from "#schema/camera-webrtc.ts"
import type { StreamId } from "#schema/common.ts"
import { DependencyUnavailable, TooManyRequests } from "#schema/problem.ts"
import { Effect } from "effect"

const silent = () => new CameraUnreachable({ reason: "timeout", detail: "it delivers no pictures at the moment" })
const closed = () =>
  new DependencyUnavailable({ dependency: "webrtc", message: "Nothing listens for WebRTC at the moment." })
const busy = () =>
  new TooManyRequests({ message: "There are as many WebRTC sessions as there may be.", retryAfterSeconds: 5 })

/** Null where this node does not serve the stream. `alternative`: another stream of the channel that WebRTC carries. */
export const makeWatch = Effect.map(
  WebRtcViewers,
  (viewers) => (id: StreamId, offer: string, holder: WatchHolder, alternative: Effect.Effect<StreamId | null>) =>
    viewers.watch(id, offer, holder).pipe(Effect.catchTags({
      SdpRefused: ({ problem }) => Effect.fail(new OfferRefused({ problem })),
      WatchUnknown: () => Effect.succeed(null),
      WatchSilent: () => Effect.fail(silent()),
      WatchUnplayable: ({ why }) =>
        Effect.flatMap(alternative, (alternativeStreamId) => new NotForWebRtc({ why, alternativeStreamId })),
      WebRtcClosed: () => Effect.fail(closed()),
      WebRtcBusy: () => Effect.fail(busy()),
    })),
)
