/**
 * Which operations another node can be asked for through this one, and whether the caller may.
 *
 * Invariants
 * 1. Only operations that are open to other nodes (`orPeer`) and neither stream nor watch are reached: the list is that mark, at the
 *    operation itself.
 * 2. The caller needs here the permission that the operation asks for; whoever is narrowed to groups needs a channel of the camera in
 *    them, under the id that it has here. The other node asks again, for this node.
 * 3. No path leaves the interface: what the router would not take as one of ours is not sent.
 */
import { FederatedChannels } from "#actors/protocol/bff-federation.ts"
import type { NodeId } from "#schema/common.ts"
import { NodeId as NodeIdSchema } from "#schema/common.ts"
import { decide, type Principal, type ScopedPermission, unnarrowed } from "#schema/permission.ts"
import { Forbidden, InvalidInput } from "#schema/problem.ts"
import { Context, Effect, Option, Schema } from "effect"
import { HttpApi } from "effect/http-api"
import { Access, type AccessAnnotation } from "../contract/access.ts"
import { Api } from "../contract/api.ts"
import { marksOf } from "../contract/conventions.ts"

interface Reachable {
  readonly method: string
  readonly segments: ReadonlyArray<string>
  readonly access: AccessAnnotation
}

/** What a path of the proxy names. */
export interface Target {
  readonly nodeId: NodeId
  /** From the root of the other node, without the query. */
  readonly path: string
  readonly permission: ScopedPermission
  /** The camera, channel or stream that the path is about; null for lists. */
  readonly subject: string | null
}

const services = ["/camera/api/v1/", "/record/api/v1/"]

const readReachable = (): ReadonlyArray<Reachable> => {
  const found: Array<Reachable> = []
  HttpApi.reflect(Api, {
    onGroup: () => {},
    onEndpoint: ({ endpoint, mergedAnnotations }) => {
      const access = Option.getOrNull(Context.getOption(mergedAnnotations, Access))
      const streams = marksOf(mergedAnnotations).streams === true
      if (access?.orPeer !== true || streams || !services.some((prefix) => endpoint.path.startsWith(prefix))) return
      found.push({ method: endpoint.method, segments: endpoint.path.split("/"), access })
    },
  })
  return found
}

const isNodeId = Schema.is(NodeIdSchema)
/** A segment that means itself: no dots alone, nothing that would be decoded again. */
const plain = /^(?!\.+$)[A-Za-z0-9._~-]+$/

/** The parameters of a path that fits, null where it does not. */
const fit = (segments: ReadonlyArray<string>, asked: ReadonlyArray<string>): ReadonlyMap<string, string> | null => {
  if (segments.length !== asked.length) return null
  const params = new Map<string, string>()
  for (const [at, segment] of segments.entries()) {
    const told = asked[at] ?? ""
    if (segment.startsWith(":")) params.set(segment.slice(1), told)
    else if (segment !== told) return null
  }
  return params
}

const unknownPath = () =>
  InvalidInput.at("/path", "is none that can be reached at another node: cameras, channels, streams and recordings are")

export const makeTargets = Effect.sync(() => {
  const reachable = readReachable()
  return (method: string, proxyPath: string): Effect.Effect<Target, InvalidInput> => {
    const [nodeId = "", ...rest] = proxyPath.split("/")
    if (!isNodeId(nodeId)) return Effect.fail(InvalidInput.at("/path", "must begin with the id of a node"))
    if (!rest.every((segment) => plain.test(segment))) return Effect.fail(unknownPath())
    const asked = ["", ...rest]
    for (const one of reachable) {
      const params = one.method === method ? fit(one.segments, asked) : null
      if (params === null) continue
      const { on, rule } = one.access
      const subject = typeof on === "object" && on !== null ? params.get(on.param) ?? null : null
      return Effect.succeed({ nodeId, path: asked.join("/"), permission: rule as ScopedPermission, subject })
    }
    return Effect.fail(unknownPath())
  }
})

/** Whether the caller may do that to what is there. */
export const makeProxyGuard = Effect.map(
  FederatedChannels,
  (channels) =>
    Effect.fnUntraced(function*(principal: Principal, { nodeId, permission, subject }: Target) {
      const held = decide(principal, permission)
      if (!held.allowed) return yield* new Forbidden({ message: held.reason })
      if (unnarrowed(principal, permission)) return
      const known = subject === null ? [] : yield* channels.ofSubject(nodeId, subject)
      const decisions = known.map(({ id }) => decide(principal, permission, [{ kind: "channel", id }]))
      if (decisions.length > 0 && decisions.every(({ allowed }) => allowed)) return
      return yield* new Forbidden({
        message:
          `${permission} is narrowed to resource groups for you, and none of them contains this of the other node`,
      })
    }),
)
