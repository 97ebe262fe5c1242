/** Handlers of the security group: from the contract to {@link Roles} and {@link Sessions}, and nothing else. */
import { Roles, Sessions } from "#actors/protocol/auth-users.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { SecurityGroup } from "../contract/auth-security.ts"
import { createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { auditDetail, auditResource } from "./http-audit.ts"

const base = "/auth/api/v1"

export const SecurityHandlers = HttpApiBuilder.group(
  nightjar.add(SecurityGroup),
  "security",
  Effect.fnUntraced(function*(handlers) {
    const roles = yield* Roles
    const sessions = yield* Sessions
    return handlers
      .handle("roles", ({ query }) => roles.list(pageRequest(query)))
      .handle(
        "createRole",
        Effect.fnUntraced(function*({ payload }) {
          yield* auditDetail({ permissions: payload.permissions ?? [] })
          const made = yield* roles.create(payload, yield* currentUser)
          return createdAt(`${base}/roles/${encodeURIComponent(made.name)}`, made)
        }),
      )
      .handle("role", ({ params }) => Effect.map(roles.get(params.name), withVersion))
      .handle(
        "updateRole",
        Effect.fnUntraced(function*({ headers, params, payload }) {
          yield* auditResource({ kind: "role", id: params.name })
          yield* auditDetail({ ...payload })
          const expected = yield* expectedVersion(headers)
          return withVersion(yield* roles.update(params.name, payload, yield* currentUser, expected))
        }),
      )
      .handle(
        "deleteRole",
        Effect.fnUntraced(function*({ headers, params }) {
          yield* auditResource({ kind: "role", id: params.name })
          yield* roles.remove(params.name, yield* expectedVersion(headers))
        }),
      )
      .handle("roleUsers", ({ params, query }) => roles.users(params.name, pageRequest(query)))
      .handle("securitySettings", () => Effect.map(sessions.settings(), withVersion))
      .handle(
        "updateSecuritySettings",
        Effect.fnUntraced(function*({ headers, payload }) {
          yield* auditDetail({ ...payload })
          return withVersion(yield* sessions.updateSettings(payload, yield* expectedVersion(headers)))
        }),
      )
      .handle(
        "ownSessions",
        ({ query }) => Effect.flatMap(currentUser, (who) => sessions.list(who.userId, who, pageRequest(query))),
      )
      .handle(
        "endOwnSession",
        ({ params }) => Effect.flatMap(currentUser, (who) => sessions.endOwn(who, params.session_id)),
      )
  }),
)
