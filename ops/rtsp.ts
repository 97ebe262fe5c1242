/** The RTSP server as this node runs it: who may read what is decided by the tokens of `StreamAccess`. */
import { AccessTokens } from "#actors/protocol/auth.ts"
import { mayWatch } from "#actors/protocol/camera-watch.ts"
import { StreamAccess, type StreamGrant } from "#actors/protocol/camera.ts"
import { RtspGate, RtspGateClosed, type RtspGrant, RtspRefused } from "#media/rtsp-server.ts"
import * as RtspServer from "#media/rtsp-server/live.ts"
import { Effect, Layer } from "effect"
import type { Settings } from "./config.ts"

const gate = Layer.effect(
  RtspGate,
  Effect.gen(function*() {
    const access = yield* StreamAccess
    const tokens = yield* AccessTokens
    /** What stands behind those who were let in. */
    const grants = new WeakMap<RtspGrant, StreamGrant>()
    return RtspGate.of({
      enter: (streamId, token) =>
        access.verify(token).pipe(
          Effect.mapError((error) => error._tag === "DependencyUnavailable" ? new RtspGateClosed() : new RtspRefused()),
          Effect.flatMap((grant) => {
            if (grant.streamId !== streamId) return Effect.fail(new RtspRefused())
            const reader = { holder: grant.sessionId }
            grants.set(reader, grant)
            return Effect.succeed(reader)
          }),
        ),
      holds: (reader) => {
        const grant = grants.get(reader)
        return grant === undefined ? Effect.succeed(false) : mayWatch(tokens, grant)
      },
    })
  }),
)

/** Reads on the address that HTTP is served on. */
export const layer = (settings: Settings) => {
  const { httpHost: host, rtspPassword, rtspPort: port, rtspUser: username } = settings
  const account = username === "" || rtspPassword === null ? null : { username, password: rtspPassword }
  return RtspServer.layer({ host, port, account }).pipe(Layer.provide(gate))
}
