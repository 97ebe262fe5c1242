/** The door to live HLS over streams that a test feeds, without HTTP. */
import { makeStreamHub } from "#media/capture/hub.ts"
import { type LiveBounds, LiveStreams } from "#media/hub.ts"
import { LiveHls } from "#media/live-hls.ts"
import { layer } from "#media/live-hls/live.ts"
import type { StreamId } from "#schema/common.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { Context, Effect, Layer } from "effect"

export const streamId = "01900000-0000-7000-8000-0000000000aa" as StreamId
/** The other stream of the scene. */
export const subId = "01900000-0000-7000-8000-0000000000cc" as StreamId
export const unknownId = "01900000-0000-7000-8000-0000000000bb" as StreamId

/** `views`: how often the hub was asked for the stream so far. */
export const hubStage = () => {
  const hub = makeStreamHub(() => {})
  const sub = makeStreamHub(() => {})
  const told = { views: 0, gone: false }
  const hubOf = (id: StreamId) => id === subId ? sub : id === streamId && !told.gone ? hub : null
  const streams = Layer.succeed(
    LiveStreams,
    LiveStreams.of({
      parameters: (id: StreamId) => hubOf(id)?.newestParameters() ?? null,
      watch: (id: StreamId, bounds: LiveBounds) => {
        const from = hubOf(id)
        return from === null ?
          Effect.succeed(null) :
          Effect.map(
            Effect.acquireRelease(
              Effect.sync(() => {
                if (from === hub) told.views++
                return from.join(bounds)
              }),
              ({ leave }) => Effect.sync(leave),
            ),
            ({ view }) => view,
          )
      },
    }),
  )
  return { hub, sub, told, streams }
}

export const liveStage = Effect.fnUntraced(function*() {
  const { hub, streams, sub, told } = hubStage()
  const context = yield* Layer.build(layer.pipe(Layer.provide(streams)))
  const holder = { id: "session 1", allowed: true }
  return {
    hub,
    sub,
    told,
    live: Context.get(context, LiveHls),
    holder,
    open: Context.get(context, LiveHls).open(streamId, {
      id: holder.id,
      holds: Effect.sync(() => holder.allowed),
    }, subId),
    feed: (
      film: { readonly parameters: TrackParameters; readonly units: ReadonlyArray<AccessUnit> },
      to: typeof hub = hub,
    ) => {
      to.parameters(film.parameters)
      for (const unit of film.units) to.unit(unit)
    },
  }
})

/** Lets what waits go on, without time passing. */
export const settled = Effect.forEach(Array.from({ length: 20 }), () => Effect.yieldNow, { discard: true })
