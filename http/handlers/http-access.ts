/**
 * Who may call: the implementation of the contract's {@link AccessControl}.
 *
 * Invariants
 * 1. The decision is made before anything of the request is decoded: 401 and 403 tell nothing of the input.
 * 2. An endpoint without an access rule is denied.
 * 3. What changes something runs once its entry of the audit log has a place.
 * 4. An administrative permission is of use from a listed management address only, where such addresses are listed.
 * 5. A node that asks for another passes only where the endpoint says so: by the rule `peer`, or by its grants and `orPeer`.
 * 6. What another node has open in a request that streams ends the moment it is no peer any more.
 */
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { PeerTokens } from "#actors/protocol/auth-federation.ts"
import { ManagementAccess } from "#actors/protocol/auth-network.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { Acting, actingHeader } from "#schema/acting.ts"
import { isLoopback } from "#schema/auth-network.ts"
import { PasswordChangeRequired } from "#schema/auth-security.ts"
import type { NodeId } from "#schema/common.ts"
import { anonymous, decide, type Permission, permissionDefinitions, type Principal } from "#schema/permission.ts"
import { Forbidden, Unauthenticated } from "#schema/problem.ts"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { RpcClient } from "effect/rpc"
import { Access, type AccessAnnotation, AccessControl, CurrentPrincipal } from "../contract/access.ts"
import { Audited, marksOf } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"
import { actorOf, admitCall, beginCall, knowCaller, overlookCall } from "./http-audit.ts"
import { makePathGuard } from "./http-resources.ts"

/** A caller on this machine that no proxy speaks for. */
const fromThisMachine = Effect.map(CurrentRequest, (info) => info !== null && isLoopback(info.address) && !info.proxied)

/** A WebSocket handshake (RFC 6455, section 4.1) without a token of its own. */
const asksInChannel = Effect.map(
  HttpServerRequest.HttpServerRequest,
  ({ headers }) => headers["upgrade"]?.toLowerCase() === "websocket" && headers["authorization"] === undefined,
)

const origin = Effect.map(CurrentRequest, (info) => ({ address: info?.address ?? "", proxied: info?.proxied ?? true }))

/** The token of another node (RFC 9449, section 7.1); null where it is not a node that calls. */
const peerToken = Effect.map(
  HttpServerRequest.HttpServerRequest,
  ({ headers }) => /^DPoP +([A-Za-z0-9._~+/=-]+) *$/i.exec(headers["authorization"] ?? "")?.[1] ?? null,
)

const makeAdmitPeer = Effect.map(
  PeerTokens,
  (peers) =>
    Effect.fnUntraced(function*(text: string, access: AccessAnnotation) {
      const request = yield* HttpServerRequest.HttpServerRequest
      const info = yield* CurrentRequest
      const token = Redacted.make(text)
      const asked = Effect.suspend(() =>
        peers.verify({
          token,
          proof: request.headers["dpop"] ?? "",
          method: request.method,
          address: `${info?.secure === true ? "https" : "http"}://${request.headers["host"] ?? ""}${info?.path ?? ""}`,
        }, { expiredToo: access.expiredToo })
      )
      // A nonce that is about to change is told with the answer, so that a busy peer never asks twice.
      const tell = Effect.map(peers.nonce, (dpopNonce) => {
        if (info !== null) info.journal.dpopNonce = dpopNonce
      })
      const principal = yield* asked.pipe(
        Effect.tapError((error) =>
          Effect.gen(function*() {
            if (info === null) return
            if (error._tag === "UseDpopNonce") return overlookCall(info)
            const claimed = yield* peers.claimed(token)
            Object.assign(info.journal.audit, {
              claimedNode: claimed?.nodeId ?? null,
              claimedName: claimed?.name ?? null,
              reason: error.message,
            })
          })
        ),
        Effect.ensuring(tell),
      )
      if (info !== null) {
        info.journal.user = principal.name
        knowCaller(info, principal)
      }
      if (access.rule === "peer") return principal
      if (!access.orPeer) return yield* new Forbidden({ message: "This operation is not open to other nodes" })
      return principal
    }),
)

/** Whoever keeps a history hears on whose behalf it is, entities on other nodes too. */
const acting = <A, E, R>(handler: Effect.Effect<A, E, R>, principal: Principal): Effect.Effect<A, E, R> => {
  const name = (principal.kind === "peer" ? principal.onBehalfOf : null) ?? actorOf(principal).name ?? ""
  return handler.pipe(
    Effect.provideService(Acting, name),
    RpcClient.withHeaders({ [actingHeader]: encodeURIComponent(name) }),
  )
}

export const AccessControlLive = Layer.effect(
  AccessControl,
  Effect.gen(function*() {
    const tokens = yield* AccessTokens
    const trail = yield* AuditTrail
    const management = yield* ManagementAccess
    const guardPath = yield* makePathGuard
    const admitPeer = yield* makeAdmitPeer
    const peers = yield* PeerTokens
    const untilUnpaired = (nodeId: NodeId) =>
      Effect.andThen(
        peers.untilEnded(nodeId),
        Effect.fail(new Unauthenticated({ message: "The pairing with this node has ended" })),
      )

    const principalOf = Effect.fnUntraced(function*(credential: Redacted.Redacted) {
      const principal = yield* tokens.verify(credential)
      const info = yield* CurrentRequest
      if (info !== null) {
        info.journal.user = principal.username
        knowCaller(info, principal)
      }
      return principal
    })

    const permitted = Effect.fnUntraced(function*(principal: Principal, rule: Permission, access: AccessAnnotation) {
      const decision = decide(principal, rule)
      if (!decision.allowed) return yield* new Forbidden({ message: decision.reason })
      if (permissionDefinitions[rule].administrative) {
        const from = yield* management.check(yield* origin)
        if (!from.allowed) return yield* new Forbidden({ message: `${rule} is administrative: ${from.reason}` })
      }
      yield* guardPath(principal, access)
      return principal
    })

    const admit = Effect.fnUntraced(function*(credential: Redacted.Redacted, access: AccessAnnotation | null) {
      if (access === null) {
        return yield* new Forbidden({ message: "This operation declares no permission and is closed" })
      }
      const { rule } = access
      if (rule === "public" || rule === "capability") return anonymous
      if (access.orLoopback && (yield* fromThisMachine)) return anonymous
      if (access.inChannel && (yield* asksInChannel)) return anonymous
      const peer = yield* peerToken
      if (peer !== null) {
        const principal = yield* admitPeer(peer, access)
        return rule === "peer" || rule === "signedIn" ? principal : yield* permitted(principal, rule, access)
      }
      const principal = yield* principalOf(credential)
      if (
        principal.mustChangePassword === true && !access.beforePasswordChange
      ) return yield* new PasswordChangeRequired()
      if (rule === "signedIn") return principal
      if (rule === "peer") return yield* new Forbidden({ message: "This operation is for other nodes, not for users" })
      return yield* permitted(principal, rule, access)
    })

    return AccessControl.of({
      bearer: Effect.fnUntraced(function*(handler, { credential, endpoint, group }) {
        const annotations = Context.merge(group.annotations, endpoint.annotations)
        const access = Option.getOrNull(Context.getOption(annotations, Access))
        const info = yield* CurrentRequest
        if (info !== null) {
          info.journal.route = endpoint.path
          info.journal.secretPath = access?.rule === "capability"
          yield* beginCall(info, {
            action: `${group.identifier}.${endpoint.identifier}`,
            path: endpoint.path,
            method: endpoint.method,
            kind: Option.getOrNull(Context.getOption(annotations, Audited)),
            open: access?.rule === "public",
            secret: access?.rule === "capability",
            credential: Redacted.value(credential) !== "" || (yield* peerToken) !== null,
          })
        }
        const principal = yield* admit(credential, access)
        if (info !== null) yield* admitCall(trail, info)
        const admitted = Effect.provideService(acting(handler, principal), CurrentPrincipal, principal)
        const open = principal.kind === "peer" && marksOf(annotations).streams === true
        return yield* open ? Effect.raceFirst(admitted, untilUnpaired(principal.nodeId)) : admitted
      }),
    })
  }),
)
