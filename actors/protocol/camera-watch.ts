/**
 * Whether somebody who was let in to a live stream may go on: asked by every media door, again and again.
 *
 * Invariants
 * 1. The database is not asked: what this node knows of sessions and grants decides, so that watching outlives control.
 */
import { decide } from "#schema/permission.ts"
import { Effect } from "effect"
import type { AccessTokens } from "./auth.ts"
import type { StreamGrant } from "./camera.ts"

/**
 * Whether somebody who was let in may go on: the session lives, and the user still holds the permission on this. As this node knows it
 * now; nothing is asked of the database. Sessions that ended are known for longer than a stream's token lives.
 */
export const mayStill = Effect.fnUntraced(
  function*(
    tokens: AccessTokens["Service"],
    permission: "camera:live" | "camera:talk",
    { resource, sessionId, userId }: Pick<StreamGrant, "resource" | "sessionId" | "userId">,
  ) {
    if (yield* tokens.hasEnded(sessionId)) return false
    const held = yield* tokens.grantsOf(userId).pipe(Effect.catch(() => Effect.succeed(null)))
    // Of a user whose roles are not kept here, the life of the session is all that is known.
    if (held === null) return true
    return decide({ kind: "user", userId, username: "", sessionId, grants: held }, permission, resource).allowed
  },
)

/** A viewer. */
export const mayWatch = (tokens: AccessTokens["Service"], grant: StreamGrant): Effect.Effect<boolean> =>
  mayStill(tokens, "camera:live", grant)
