/** {@link ClusterMembers}, over what the cluster knows of its members. */
import { ClusterMembers } from "#actors/protocol/federation-member.ts"
import { thumbprintOf } from "#cluster/dpop.ts"
import { type Member, Members } from "#cluster/members.ts"
import { Membership } from "#cluster/membership.ts"
import { Ownership } from "#cluster/ownership.ts"
import { type ClusterMember, OtherNode } from "#schema/federation-member.ts"
import { Fingerprint, NodeNotFound } from "#schema/federation.ts"
import { Effect, Layer } from "effect"
import { answered } from "../store/answer.ts"

const fingerprintOf = ({ signingKey }: Member) => Fingerprint.make(thumbprintOf(signingKey))

const make = Effect.gen(function*() {
  const members = yield* Members
  const membership = yield* Membership
  const { nodeId: self } = yield* Ownership

  const shown = (member: Member): ClusterMember => ({
    nodeId: member.nodeId,
    name: member.name,
    slot: member.slot,
    fingerprint: fingerprintOf(member),
    admitted: member.admitted,
    self: member.nodeId === self,
    address: member.http?.address ?? null,
    version: member.version,
    startedAt: member.startedMs,
  })

  return ClusterMembers.of({
    list: () => Effect.map(answered(members.refresh), (all) => all.map(shown)),
    approve: Effect.fnUntraced(function*(nodeId, fingerprint) {
      const meant = (yield* answered(members.refresh)).find((member) => member.nodeId === nodeId)
      if (meant === undefined) return yield* new NodeNotFound({ nodeId })
      if (fingerprintOf(meant) !== fingerprint) return yield* new OtherNode()
      return shown(yield* answered(membership.approve(nodeId, meant.signingKey)))
    }, Effect.catchTag("UnknownNode", ({ nodeId }) => Effect.fail(new NodeNotFound({ nodeId })))),
    remove: Effect.fnUntraced(function*(nodeId) {
      return shown(yield* answered(membership.remove(nodeId)))
    }, Effect.catchTag("UnknownNode", ({ nodeId }) => Effect.fail(new NodeNotFound({ nodeId })))),
  })
})

export const clusterMembersLayer: Layer.Layer<ClusterMembers, never, Members | Membership | Ownership> = Layer.effect(
  ClusterMembers,
  make,
)
