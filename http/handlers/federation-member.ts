/** Handlers of the group on the cluster's members: from the contract to {@link ClusterMembers}, and nothing else. */
import { ClusterMembers } from "#actors/protocol/federation-member.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { nightjar } from "../contract/conventions.ts"
import { ClusterMemberGroup } from "../contract/federation-member.ts"
import { auditDetail } from "./http-audit.ts"

export const ClusterMemberHandlers = HttpApiBuilder.group(
  nightjar.add(ClusterMemberGroup),
  "clusterMember",
  Effect.fnUntraced(function*(handlers) {
    const members = yield* ClusterMembers
    return handlers
      .handle("clusterMembers", () => Effect.map(members.list(), (items) => ({ items, nextCursor: null })))
      .handle(
        "approveMember",
        Effect.fnUntraced(function*({ params, payload }) {
          yield* auditDetail({ fingerprint: payload.fingerprint })
          return yield* members.approve(params.nodeId, payload.fingerprint)
        }),
      )
      .handle("removeMember", ({ params }) => members.remove(params.nodeId))
  }),
)
