/** Who is signed in just now: see `actors/protocol/auth-presence.ts`. */
import { Presence, presentForMs } from "#actors/protocol/auth-presence.ts"
import { Clock, Effect, Layer } from "effect"
import { answered } from "../store/answer.ts"
import { AuthPresenceStore } from "../store/auth-presence.ts"

export const layer = Layer.effect(
  Presence,
  Effect.map(AuthPresenceStore, (store) => ({
    list: Effect.fnUntraced(function*(limit, after) {
      const nowMs = yield* Clock.currentTimeMillis
      return yield* answered(store.list({ nowMs, seenSinceMs: nowMs - presentForMs }, limit, after))
    }),
    count: Effect.fnUntraced(function*() {
      const nowMs = yield* Clock.currentTimeMillis
      return yield* answered(store.count(nowMs, nowMs - presentForMs))
    }),
  })),
)
