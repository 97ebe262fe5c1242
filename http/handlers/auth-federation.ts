/** Handlers of the group on pairing: from the contract to {@link Pairings}, and nothing else. */
import { Pairings } from "#actors/protocol/auth-federation.ts"
import { pagesOf } from "#schema/cursor.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { currentPeer } from "../contract/access.ts"
import { AuthFederationGroup } from "../contract/auth-federation.ts"
import { createdAt, nightjar, pageRequest } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"
import { auditDetail } from "./http-audit.ts"

const pages = pagesOf("pairing-requests")

export const AuthFederationHandlers = HttpApiBuilder.group(
  nightjar.add(AuthFederationGroup),
  "authFederation",
  Effect.fnUntraced(function*(handlers) {
    const pairings = yield* Pairings
    return handlers
      .handle(
        "requestPairing",
        Effect.fnUntraced(function*({ payload }) {
          yield* auditDetail({ nodeId: payload.nodeId, name: payload.name, address: payload.address })
          const answer = yield* pairings.request(payload, { address: (yield* CurrentRequest)?.address ?? "" })
          return createdAt(`/auth/api/v1/federation/pair/request/${answer.requestId}`, answer)
        }),
      )
      .handle("pairingStatus", ({ params }) => pairings.status(params.requestId))
      .handle("revealPairing", ({ params, payload }) => pairings.reveal(params.requestId, payload.nonce))
      .handle("claimPairing", ({ params, payload }) => pairings.claim(params.requestId, payload))
      .handle("refreshPeer", ({ payload }) => Effect.flatMap(currentPeer, (who) => pairings.refresh(who, payload)))
      .handle("greetPeer", () => Effect.flatMap(currentPeer, pairings.greet))
      .handle("leavePeer", () => Effect.flatMap(currentPeer, pairings.left))
      .handle(
        "pairingRequests",
        ({ query }) => Effect.flatMap(pairings.incoming(), (items) => pages(items, pageRequest(query))),
      )
      .handle(
        "confirmPairing",
        Effect.fnUntraced(function*({ params, payload }) {
          const confirmed = yield* pairings.confirm(params.id, payload)
          const { fingerprint, name, nodeId } = confirmed
          yield* auditDetail({ nodeId, name, fingerprint, grantGuardian: payload.grantGuardian ?? false })
          return confirmed
        }),
      )
      .handle(
        "denyPairing",
        Effect.fnUntraced(function*({ params }) {
          const denied = yield* pairings.deny(params.id)
          yield* auditDetail({ nodeId: denied.nodeId, name: denied.name })
          return denied
        }),
      )
      .handle("revokePeer", ({ params }) => pairings.unpair(params.peerNodeId))
      .handle(
        "enforceMediaRead",
        Effect.fnUntraced(function*({ params, payload }) {
          const set = yield* pairings.enforce(params.peerNodeId, payload)
          yield* auditDetail({ enabled: set.enabled, roles: set.roles })
          return set
        }),
      )
  }),
)
