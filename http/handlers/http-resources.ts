/**
 * Permissions that resource groups narrow, at the door: may the caller do this to this thing?
 *
 * Invariants
 * 1. Of a thing that the caller may not see the answer is that of one that does not exist: the same problem, word for word. One
 *    that he sees but may not touch is 403.
 * 2. Nothing is asked of the database for roles that are not narrowed; for others it is one row by its key.
 * 3. What goes on in somebody's name (a replay session, whose URL needs no token) ends with his permission.
 */
import { PeerTokens } from "#actors/protocol/auth-federation.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { type Named, Resources } from "#actors/protocol/permission.ts"
import type { ReplayGrant } from "#actors/protocol/replay.ts"
import { CameraNotFound, ChannelNotFound, StreamNotFound } from "#schema/camera.ts"
import type { NodeId } from "#schema/common.ts"
import {
  anonymous,
  decide,
  type Principal,
  type ResourceRef,
  type ScopedPermission,
  sees,
  unnarrowed,
} from "#schema/permission.ts"
import { type DependencyUnavailable, Forbidden } from "#schema/problem.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import { makingPeer, ReplaySessionEnded, ReplaySessionNotFound } from "#schema/replay.ts"
import { Effect, Option } from "effect"
import { HttpRouter } from "effect/http"
import { type AccessAnnotation, type ConcernedKind, CurrentPrincipal } from "../contract/access.ts"
import { auditHidden } from "./http-audit.ts"

/** What is answered where there is no such thing. */
const missing = {
  camera: (id: string) => new CameraNotFound({ id }),
  channel: (id: string) => new ChannelNotFound({ id }),
  stream: (id: string) => new StreamNotFound({ id }),
  recording: (id: string) => new RecordingNotFound({ id }),
  recordingToken: (id: string) => new RecordingNotFound({ id }),
  replaySession: () => new ReplaySessionNotFound(),
} satisfies Record<ConcernedKind, (id: string) => unknown>

const judge = <E>(
  resources: Resources["Service"],
  principal: Principal,
  permission: ScopedPermission,
  named: Named,
  absent: () => E,
): Effect.Effect<void, E | Forbidden | DependencyUnavailable> => {
  if (unnarrowed(principal, permission)) return Effect.void
  return Effect.gen(function*() {
    const refs = yield* resources.containing(named)
    if (refs === null) return yield* Effect.fail(absent())
    const decision = decide(principal, permission, refs)
    if (decision.allowed) return
    // A camera of which he sees a channel is shown to him, with that channel alone.
    const within = named.kind === "camera" ? yield* resources.channelsOf(named.id) : []
    const seen = [refs, ...within].some((thing) => sees(principal, thing))
    if (seen) return yield* new Forbidden({ message: decision.reason })
    yield* auditHidden(principal)
    return yield* Effect.fail(absent())
  })
}

/** For handlers whose body names the thing: decides for the caller; `absent` is what is answered where there is no such thing. */
export const makeGuard = Effect.map(
  Resources,
  (resources) => <E>(permission: ScopedPermission, named: Named, absent: () => E) =>
    Effect.flatMap(CurrentPrincipal, (principal) => judge(resources, principal, permission, named, absent)),
)

/**
 * Decides about the thing that the path names, before anything of the request is decoded. Its 404 is one of the endpoint's own
 * problems, though the types of a middleware cannot say so.
 */
export const makePathGuard = Effect.map(
  Resources,
  (resources) => (principal: Principal, { on, rule }: AccessAnnotation) =>
    Effect.gen(function*() {
      // A caller who passed without a name, where the rule lets him, is nobody's role.
      if (on === null || on === "handler" || on === "service" || principal === anonymous) return
      const permission = rule as ScopedPermission
      if (on === "everything") {
        if (unnarrowed(principal, permission)) return
        const message = `${permission} is narrowed to resource groups for you, and this concerns everything`
        return yield* new Forbidden({ message })
      }
      const route = yield* Effect.serviceOption(HttpRouter.RouteContext)
      const id = Option.getOrNull(route)?.params[on.param] ?? ""
      yield* judge(resources, principal, permission, { kind: on.kind, id }, () => missing[on.kind](id)).pipe(
        Effect.mapError((error) => error as Forbidden | DependencyUnavailable),
      )
    }),
)

/** Where recordings lie, some hundred bytes each; that never changes. */
const rememberedPlaces = 4_096

/** Whether the maker of a replay session may still replay what it shows; `ReplaySessionEnded` otherwise. */
export const makeSessionGuard = Effect.gen(function*() {
  const tokens = yield* AccessTokens
  const peers = yield* PeerTokens
  const resources = yield* Resources
  const places = new Map<string, ReadonlyArray<ResourceRef>>()

  const placeOf = Effect.fnUntraced(function*(id: string) {
    const known = places.get(id)
    if (known !== undefined) return known
    const found = yield* resources.containing({ kind: "recording", id })
    if (found === null) return null
    const [oldest] = places.keys()
    if (places.size >= rememberedPlaces && oldest !== undefined) places.delete(oldest)
    places.set(id, found)
    return found
  })

  return Effect.fnUntraced(function*({ loginSessionId, recordingId, userId }: ReplayGrant) {
    const peer = makingPeer(loginSessionId)
    const grants = peer === null ? yield* tokens.grantsOf(userId) : (yield* peers.grantsOf(peer)) ?? []
    if (grants === null) return
    const maker: Principal = { kind: "user", userId, username: "", sessionId: loginSessionId, grants }
    if (unnarrowed(maker, "recording:replay")) return
    // Who holds it nowhere needs no place.
    const refs = decide(maker, "recording:replay").allowed ? yield* placeOf(recordingId) : null
    const allowed = refs !== null && decide(maker, "recording:replay", refs).allowed
    if (!allowed) return yield* new ReplaySessionEnded({ state: "revoked" })
  })
})

/**
 * What another node began here goes on as long as what was given to that node reaches: whether it does now. While that cannot be known, it
 * goes on.
 */
export const makePeerReach = Effect.map(
  PeerTokens,
  (peers) => (nodeId: NodeId, permission: ScopedPermission, place: ReadonlyArray<ResourceRef>) =>
    peers.grantsOf(nodeId).pipe(
      Effect.map((grants) =>
        grants !== null &&
        decide({ kind: "peer", nodeId, name: "", relation: "peer", onBehalfOf: null, grants }, permission, place)
          .allowed
      ),
      Effect.catchTag("DependencyUnavailable", () => Effect.succeed(true)),
    ),
)
