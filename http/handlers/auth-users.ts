/**
 * Handlers of the users group.
 *
 * Invariants
 * 1. An answer that tells a password says `no-store`: no cache and no kept answer holds it.
 * 2. The audit log learns which members of a user were changed, and of roles and state to what; never a password.
 */
import { Sessions, Users, type VersionedPreferences } from "#actors/protocol/auth-users.ts"
import type { UserUpdate } from "#schema/auth-users.ts"
import { Effect } from "effect"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { UsersGroup } from "../contract/auth-users.ts"
import { etag, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { auditDetail, auditResource } from "./http-audit.ts"

const base = "/auth/api/v1"

const withTag = ({ document, version }: VersionedPreferences) =>
  HttpApiSchema.withHeaders({ body: document, headers: { etag: etag(version) } })

const changeOf = ({ enabled, roles, ...rest }: UserUpdate) => ({
  changed: Object.keys(rest),
  ...(enabled === undefined ? {} : { enabled }),
  ...(roles === undefined ? {} : { roles }),
})

const auditRole = ({ id, role_name }: { readonly id: string; readonly role_name: string }) =>
  Effect.andThen(auditResource({ kind: "user", id }), auditDetail({ role: role_name }))

export const UsersHandlers = HttpApiBuilder.group(
  nightjar.add(UsersGroup),
  "users",
  Effect.fnUntraced(function*(handlers) {
    const users = yield* Users
    const sessions = yield* Sessions
    return handlers
      .handle("users", ({ query }) =>
        users.list({
          ...(query.text === undefined ? {} : { text: query.text }),
          ...(query.role === undefined ? {} : { role: query.role }),
          ...(query.enabled === undefined ? {} : { enabled: query.enabled === "true" }),
        }, pageRequest(query)))
      .handle(
        "createUser",
        Effect.fnUntraced(function*({ payload }) {
          yield* auditDetail({ username: payload.username, roles: payload.roles ?? [] })
          const made = yield* users.create(payload, yield* currentUser)
          const headers = { location: `${base}/users/${made.id}`, etag: etag(made.version) }
          return HttpApiSchema.withHeaders({
            body: made,
            headers: { ...headers, "cache-control": "no-store" as const },
          })
        }),
      )
      .handle("user", ({ params }) => Effect.map(users.get(params.id), withVersion))
      .handle(
        "updateUser",
        Effect.fnUntraced(function*({ headers, params, payload }) {
          yield* auditDetail(changeOf(payload))
          const expected = yield* expectedVersion(headers)
          return withVersion(yield* users.update(params.id, payload, yield* currentUser, expected))
        }),
      )
      .handle(
        "deleteUser",
        Effect.fnUntraced(function*({ headers, params }) {
          yield* users.remove(params.id, yield* currentUser, yield* expectedVersion(headers))
        }),
      )
      .handle("unlockUser", ({ params }) => Effect.map(users.unlock(params.id), withVersion))
      .handle("userRoles", ({ params }) => Effect.map(users.roles(params.id), (items) => ({ items, nextCursor: null })))
      .handle(
        "grantRole",
        Effect.fnUntraced(function*({ params }) {
          yield* auditRole(params)
          return withVersion(yield* users.grant(params.id, params.role_name, yield* currentUser))
        }),
      )
      .handle(
        "revokeRole",
        Effect.fnUntraced(function*({ params }) {
          yield* auditRole(params)
          yield* users.revoke(params.id, params.role_name, yield* currentUser)
        }),
      )
      .handle(
        "userSessions",
        ({ params, query }) => Effect.flatMap(currentUser, (who) => sessions.list(params.id, who, pageRequest(query))),
      )
      .handle("terminateSessions", ({ params }) =>
        sessions.terminate(params.user_id).pipe(Effect.map((ended) => ({ ended })), Effect.tap(auditDetail)))
      .handle("preferences", () =>
        Effect.map(Effect.flatMap(currentUser, users.preferences), withTag))
      .handle(
        "updatePreferences",
        Effect.fnUntraced(function*({ headers, payload }) {
          const expected = yield* expectedVersion(headers)
          return withTag(yield* users.updatePreferences(yield* currentUser, payload, expected))
        }),
      )
  }),
)
