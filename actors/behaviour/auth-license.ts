/** The licence at the sign-in: as many people as it covers, and administrators besides, or nobody could mend it. */
import { presentForMs } from "#actors/protocol/auth-presence.ts"
import { LicenseGate } from "#actors/protocol/license.ts"
import { Clock, Effect } from "effect"
import { AuthPresenceStore } from "../store/auth-presence.ts"

/** Fails where everybody that the licence covers is signed in already. Two who come at once may both pass. */
export const makeLicensed = Effect.gen(function*() {
  const gate = yield* LicenseGate
  const presence = yield* AuthPresenceStore
  const inUse = Effect.flatMap(Clock.currentTimeMillis, (nowMs) => presence.count(nowMs, nowMs - presentForMs))
  return (user: { readonly roles: ReadonlyArray<string> }) =>
    user.roles.includes("admin") ? Effect.void : gate.maySignIn(inUse)
})
