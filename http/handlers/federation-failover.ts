/** Handlers of the failover group: from the contract to {@link Failovers}, and nothing else. */
import { Failovers } from "#actors/protocol/federation-failover.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { currentPeer, CurrentPrincipal } from "../contract/access.ts"
import { createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { FederationFailoverGroup } from "../contract/federation-failover.ts"
import { auditDetail } from "./http-audit.ts"

const protections = "/federation/api/v1/federation/failover/protections"
/** Changes that an entry of the audit log names one by one. */
const namedAtMost = 100
const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })

export const FederationFailoverHandlers = HttpApiBuilder.group(
  nightjar.add(FederationFailoverGroup),
  "federationFailover",
  Effect.fnUntraced(function*(handlers) {
    const [failovers, journals] = yield* Effect.all([Failovers, FailoverJournals])
    const asking = Effect.map(currentPeer, ({ nodeId }) => nodeId)
    return handlers
      .handle("failoverSettings", () => Effect.map(failovers.settings(), withVersion))
      .handle(
        "updateFailoverSettings",
        Effect.fnUntraced(function*({ headers, payload }) {
          return withVersion(yield* failovers.updateSettings(payload, yield* expectedVersion(headers)))
        }),
      )
      .handle("failoverStatus", () => failovers.status())
      .handle("protections", () => Effect.map(failovers.protections(), whole))
      .handle(
        "protect",
        Effect.fnUntraced(function*({ payload }) {
          const protection = yield* failovers.protect(payload)
          yield* auditDetail({ protection: protection.id, node: payload.nodeId, class: payload.class })
          return createdAt(`${protections}/${protection.id}`, protection)
        }),
      )
      .handle("protection", ({ params }) => failovers.protection(params.id))
      .handle("release", ({ params }) => failovers.release(params.id))
      .handle(
        "takeover",
        Effect.fnUntraced(function*({ params, payload }) {
          const homeIsOff = payload.homeIsOff ?? false
          yield* auditDetail({ homeIsOff })
          return yield* failovers.takeover(params.id, { homeIsOff, drill: false })
        }),
      )
      .handle(
        "failback",
        Effect.fnUntraced(function*({ params, query }) {
          const withoutChanges = query.withoutChanges === "true"
          yield* auditDetail({ withoutChanges })
          return yield* failovers.failback(params.id, { withoutChanges })
        }),
      )
      .handle(
        "discardChanges",
        Effect.fnUntraced(function*({ params }) {
          const { discarded, protection } = yield* failovers.discardChanges(params.id)
          const named = discarded.slice(0, namedAtMost).map(({ after, atMs, before, by, id, kind }) => ({
            [kind]: id,
            by,
            changedAt: new Date(atMs).toISOString(),
            fields: Object.keys(after ?? before ?? {}),
          }))
          yield* auditDetail({ changes: discarded.length, discarded: named })
          return protection
        }),
      )
      .handle("snapshot", ({ params }) => failovers.snapshot(params.id))
      .handle("drill", ({ params }) => failovers.takeover(params.id, { homeIsOff: false, drill: true }))
      .handle("reroutes", ({ query }) => failovers.reroutes(pageRequest(query)))
      .handle("configurationConflicts", ({ query }) => journals.conflicts(pageRequest(query)))
      .handle(
        "resolveConflict",
        Effect.fnUntraced(function*({ params, payload }) {
          const decided = yield* journals.resolve(params.id, payload.side)
          const { cameraId, field, kind, thingId } = decided
          yield* auditDetail({ side: payload.side, camera: cameraId, [kind]: thingId, field })
          return decided
        }),
      )
      .handle(
        "guardian",
        Effect.fnUntraced(function*() {
          const principal = yield* CurrentPrincipal
          const all = yield* failovers.guardians()
          return whole(principal.kind === "peer" ? all.filter(({ nodeId }) => nodeId === principal.nodeId) : all)
        }),
      )
      .handle(
        "grantGuardian",
        Effect.fnUntraced(function*({ params, payload }) {
          yield* auditDetail({ guardian: params.nodeId, granted: payload.granted })
          return yield* failovers.grant(params.nodeId, payload.granted)
        }),
      )
      .handle("failoverHeartbeat", () => Effect.flatMap(asking, failovers.heartbeat))
      .handle("configBundle", () => Effect.flatMap(asking, failovers.bundle))
      .handle(
        "rerouteStatus",
        Effect.fnUntraced(function*({ query }) {
          return yield* failovers.rerouteStatus(yield* asking, query.homeNodeId)
        }),
      )
      .handle("takeBackControl", () => Effect.map(failovers.takeBackControl(), whole))
      .handle(
        "voteOnControl",
        Effect.fnUntraced(function*({ payload }) {
          return yield* failovers.voteOnControl(yield* asking, payload)
        }),
      )
      .handle(
        "releaseControl",
        Effect.fnUntraced(function*({ payload }) {
          yield* failovers.releaseControl(yield* asking, payload)
          return { homeNodeId: payload.homeNodeId }
        }),
      )
      .handle(
        "failoverJournal",
        Effect.fnUntraced(function*({ payload }) {
          return yield* journals.give(yield* asking, payload.acknowledged)
        }),
      )
      .handle(
        "comeBack",
        Effect.fnUntraced(function*({ payload }) {
          return { epoch: yield* failovers.comeBack(yield* asking, payload) }
        }),
      )
  }),
)
