/**
 * Open live channels of this node: whose they are, and whether he still may.
 *
 * Invariants
 * 1. Each token is looked at again every second: an ended session or an expired token closes its channels, a change of
 *    permissions holds for the events that follow.
 * 2. Every 15 s a channel is told that it lives, with the place it has reached; one that answers nothing for three of them is
 *    closed.
 * 3. Who follows, and how far he was served, is noted for "missed since last seen"; never more than once a second.
 */
import { AccessTokens } from "#actors/protocol/auth.ts"
import type { EventFollower } from "#actors/protocol/event.ts"
import { Notifications } from "#actors/protocol/notification.ts"
import type { UserId } from "#schema/common.ts"
import type { StreamClose } from "#schema/notification.ts"
import { decide, type UserPrincipal } from "#schema/permission.ts"
import { Effect, type Redacted, Schedule, type Scope } from "effect"

const sweepEvery = "1 second"
const sweepsPerAlive = 15
/** Who follows is noted at once when it changes, and this often while it does not. */
const sweepsPerPresence = 30
const silentAlives = 3

/** A channel as the sweep knows it. */
export interface StreamSession {
  token: Redacted.Redacted
  principal: UserPrincipal
  readonly follower: EventFollower
  /** Tells that the channel lives; answers whether the client has sent anything since the last time (`null`: it cannot). */
  readonly alive: () => boolean | null
  readonly end: (why: StreamClose) => void
}

export interface StreamSessions {
  /** Watches over a channel until the scope closes. */
  readonly watch: (session: StreamSession) => Effect.Effect<void, never, Scope.Scope>
  /** The user of a token, if he may follow events. */
  readonly admit: (token: Redacted.Redacted) => Effect.Effect<UserPrincipal | StreamClose>
}

/** Whether a user may open a channel at all. What he sees on it is decided event by event. */
const mayFollow = (principal: UserPrincipal) => decide(principal, "notification:read").allowed

export const makeStreamSessions = Effect.gen(function*() {
  const tokens = yield* AccessTokens
  const notifications = yield* Notifications
  const sessions = new Map<StreamSession, { silent: number }>()
  /** How far users were served whose channels opened or closed since the last note. */
  const changed = new Map<UserId, number>()
  let round = 0

  const seen = ({ follower, principal: { userId } }: StreamSession, into: Map<UserId, number>) =>
    into.set(userId, Math.max(into.get(userId) ?? 0, follower.at().position))

  const notePresence = Effect.gen(function*() {
    const noted = new Map(changed)
    if (round % sweepsPerPresence === 0) { for (const session of sessions.keys()) seen(session, noted) }
    if (noted.size === 0) return
    yield* notifications.present(Array.from(noted, ([userId, position]) => ({ userId, position })))
    for (const [userId, position] of noted) if (changed.get(userId) === position) changed.delete(userId)
  }).pipe(Effect.catchTag("DependencyUnavailable", () => Effect.void))

  const admit = (token: Redacted.Redacted): Effect.Effect<UserPrincipal | StreamClose> =>
    tokens.verify(token).pipe(
      Effect.map((principal) => mayFollow(principal) ? principal : "forbidden" as const),
      Effect.catchTags({
        Unauthenticated: () => Effect.succeed("unauthenticated" as const),
        DependencyUnavailable: () => Effect.succeed("later" as const),
      }),
    )

  const check = Effect.fnUntraced(function*(session: StreamSession) {
    const found = yield* admit(session.token)
    // What is trusted was known when the channel opened; if it is not now, what was known holds.
    if (found === "later") return
    if (typeof found === "string") return session.end(found)
    if (found.grants === session.principal.grants) return
    session.principal = found
    session.follower.become(found)
  })

  const tellAlive = () => {
    for (const [session, state] of sessions) {
      const heard = session.alive()
      state.silent = heard === false ? state.silent + 1 : 0
      if (state.silent >= silentAlives) session.end("silent")
    }
  }

  const sweep = Effect.gen(function*() {
    yield* Effect.forEach(sessions.keys(), check, { discard: true })
    round += 1
    if (round % sweepsPerAlive === 0) tellAlive()
    yield* notePresence
  }).pipe(Effect.catchCause((cause) => Effect.logError("Live channels could not be looked after", cause)))
  yield* Effect.forkScoped(Effect.repeat(sweep, Schedule.spaced(sweepEvery)))

  return {
    admit,
    watch: (session) =>
      Effect.asVoid(
        Effect.acquireRelease(
          Effect.sync(() => sessions.set(session, { silent: 0 })),
          () => Effect.sync(() => sessions.delete(session)),
        ),
      ),
  } satisfies StreamSessions
})
