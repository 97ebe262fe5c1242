/** The RTSP server as this node runs it: who may read what is decided by the tokens of `StreamAccess`. */
import { AccessTokens } from "#actors/protocol/auth.ts"
import { StreamAccess } from "#actors/protocol/camera.ts"
import { RtspGate, RtspGateClosed, RtspRefused } from "#media/rtsp-server.ts"
import * as RtspServer from "#media/rtsp-server/live.ts"
import { Effect, Layer } from "effect"
import type { Settings } from "./config.ts"

const gate = Layer.effect(
  RtspGate,
  Effect.gen(function*() {
    const access = yield* StreamAccess
    const tokens = yield* AccessTokens
    return RtspGate.of({
      enter: (streamId, token) =>
        access.verify(token).pipe(
          Effect.mapError((error) => error._tag === "DependencyUnavailable" ? new RtspGateClosed() : new RtspRefused()),
          Effect.flatMap((grant) =>
            grant.streamId === streamId ? Effect.succeed({ holder: grant.sessionId }) : Effect.fail(new RtspRefused())
          ),
        ),
      holds: ({ holder }) => Effect.map(tokens.hasEnded(holder), (ended) => !ended),
    })
  }),
)

/** Reads on the address that HTTP is served on. */
export const layer = (settings: Settings) => {
  const { httpHost: host, rtspPassword, rtspPort: port, rtspUser: username } = settings
  const account = username === "" || rtspPassword === null ? null : { username, password: rtspPassword }
  return RtspServer.layer({ host, port, account }).pipe(Layer.provide(gate))
}
