/** Handlers of the group on nodes: from the contract to {@link FederationNodes} and {@link Pairings}. */
import { Pairings } from "#actors/protocol/auth-federation.ts"
import { FederationNodes } from "#actors/protocol/federation-node.ts"
import type { OutgoingPairing, PairAsk } from "#schema/auth-federation.ts"
import type { NodeId } from "#schema/common.ts"
import { pagesOf } from "#schema/cursor.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { acceptedAt, nightjar, pageRequest } from "../contract/conventions.ts"
import { FederationNodeGroup } from "../contract/federation-node.ts"
import { auditDetail, auditResource } from "./http-audit.ts"

const nodePages = pagesOf("nodes")
const pairingPages = pagesOf("pairings")

export const FederationNodeHandlers = HttpApiBuilder.group(
  nightjar.add(FederationNodeGroup),
  "federationNode",
  Effect.fnUntraced(function*(handlers) {
    const nodes = yield* FederationNodes
    const pairings = yield* Pairings

    const pair = Effect.fnUntraced(function*(nodeId: NodeId, ask: PairAsk) {
      yield* auditResource({ kind: "node", id: nodeId })
      const known = ask.address ?? (yield* nodes.list()).find((node) => node.nodeId === nodeId)?.address ?? null
      if (known === null) {
        return yield* InvalidInput.at("/payload/address", "is needed: this node was not seen on the network")
      }
      yield* auditDetail({ address: known, grantGuardian: ask.grantGuardian ?? false })
      const asked: OutgoingPairing = yield* pairings.ask(nodeId, { ...ask, address: known })
      return acceptedAt(`/federation/api/v1/federation/pairings/${asked.requestId}`, asked)
    })

    return handlers
      .handle("nodes", ({ query }) => Effect.flatMap(nodes.list(), (items) => nodePages(items, pageRequest(query))))
      .handle("node", ({ params }) => nodes.get(params.nodeId))
      .handle(
        "orderNodes",
        ({ payload }) => Effect.map(nodes.order(payload.nodeIds), (items) => ({ items, nextCursor: null })),
      )
      .handle(
        "setNodeAddresses",
        Effect.fnUntraced(function*({ params: { nodeId }, payload: { addresses } }) {
          yield* auditDetail({ addresses: [...addresses] })
          yield* pairings.setAddresses(nodeId, addresses)
          return yield* nodes.get(nodeId)
        }),
      )
      .handle("pairByUuid", ({ payload: { nodeUuid, ...ask } }) => pair(nodeUuid, ask))
      .handle("pairNode", ({ params, payload }) => pair(params.nodeId, payload))
      .handle("unpairNode", ({ params }) => pairings.unpair(params.nodeId))
      .handle(
        "pairings",
        ({ query }) => Effect.flatMap(pairings.outgoing(), (items) => pairingPages(items, pageRequest(query))),
      )
      .handle(
        "confirmPairingHere",
        Effect.fnUntraced(function*({ params, payload }) {
          const confirmed = yield* pairings.confirmOwn(params.requestId, payload)
          yield* auditDetail({ nodeId: confirmed.nodeId, name: confirmed.name, fingerprint: confirmed.fingerprint })
          return confirmed
        }),
      )
      .handle("withdrawPairing", ({ params }) => pairings.withdraw(params.requestId))
  }),
)
