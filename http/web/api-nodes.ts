/** What the page of nodes asks of the node. */
import type { OutgoingPairing, PairByUuid, PairRequest } from "#schema/auth-federation.ts"
import type { NodeId } from "#schema/common.ts"
import { NodeId as NodeIdSchema } from "#schema/common.ts"
import { Fingerprint } from "#schema/federation.ts"
import { Option, Schema } from "effect"
import { call, everything } from "./api.ts"

/** As people copy them from the other node; none where it is not one. */
const asNodeId = Schema.decodeUnknownOption(NodeIdSchema)
const asFingerprint = Schema.decodeUnknownOption(Fingerprint)

export const listNodes = () => everything((api, query) => api.federationNode.nodes({ query }))
export const incomingRequests = () => everything((api, query) => api.authFederation.pairingRequests({ query }))
export const outgoingPairings = () => everything((api, query) => api.federationNode.pairings({ query }))

export const askPairing = async (payload: typeof PairByUuid.Type) =>
  (await call((api) => api.federationNode.pairByUuid({ payload }))).body
export const orderNodes = (nodeIds: ReadonlyArray<NodeId>) =>
  call((api) => api.federationNode.orderNodes({ payload: { nodeIds } }))
/** One on each line, or separated by commas or blanks; the node refuses what is none, with the reason. */
export const setAddresses = (nodeId: NodeId, text: string) =>
  call((api) =>
    api.federationNode.setNodeAddresses({
      params: { nodeId },
      payload: { addresses: text.split(/[\s,]+/).filter((one) => one !== "").map((one) => one.replace(/\/+$/, "")) },
    })
  )
export const unpair = (nodeId: NodeId) => call((api) => api.federationNode.unpairNode({ params: { nodeId } }))

export const confirmIncoming = ({ comparisonCode, id }: PairRequest, grantGuardian: boolean) =>
  call((api) =>
    api.authFederation.confirmPairing({
      params: { id },
      // What the person saw is what is confirmed.
      payload: { grantGuardian, ...comparisonCode === null ? {} : { comparisonCode } },
    })
  )
export const denyIncoming = ({ id }: PairRequest) => call((api) => api.authFederation.denyPairing({ params: { id } }))
export const confirmOutgoing = ({ comparisonCode, requestId }: OutgoingPairing) =>
  call((api) => api.federationNode.confirmPairingHere({ params: { requestId }, payload: { comparisonCode } }))
export const withdraw = ({ requestId }: OutgoingPairing) =>
  call((api) => api.federationNode.withdrawPairing({ params: { requestId } }))

/** The typed text, or why it is none. */
export const readAsk = (typed: { readonly id: string; readonly address: string; readonly fingerprint: string }) => {
  const nodeUuid = Option.getOrNull(asNodeId(typed.id.trim().toLowerCase()))
  if (nodeUuid === null) return "The id is not that of a node: it is copied from the other node's page"
  const address = typed.address.trim().replace(/\/+$/, "")
  if (!/^https?:\/\/[^/]+$/.test(address)) return "The address begins with https:// and has no path"
  const text = typed.fingerprint.trim()
  const fingerprint = Option.getOrNull(asFingerprint(text))
  if (text !== "" && fingerprint === null) return "The fingerprint has 43 characters: copy it, or leave it out"
  return { nodeUuid, address, ...fingerprint === null ? {} : { fingerprint } }
}
