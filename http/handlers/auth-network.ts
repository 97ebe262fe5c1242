/** Handlers of the network group. */
import { ManagementAccess, ManagementIps } from "#actors/protocol/auth-network.ts"
import { Smtp } from "#actors/protocol/auth-smtp.ts"
import type { CallOrigin } from "#schema/auth-network.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { NetworkGroup } from "../contract/auth-network.ts"
import { createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"

const origin: Effect.Effect<CallOrigin> = Effect.map(
  CurrentRequest,
  (info) => ({ address: info?.address ?? "", proxied: info?.proxied ?? true }),
)

export const NetworkHandlers = HttpApiBuilder.group(
  nightjar.add(NetworkGroup),
  "network",
  Effect.fnUntraced(function*(handlers) {
    const ips = yield* ManagementIps
    const management = yield* ManagementAccess
    const smtp = yield* Smtp
    return handlers
      .handle("ips", ({ query }) => ips.list(pageRequest(query)))
      .handle(
        "addIp",
        Effect.fnUntraced(function*({ payload }) {
          const entry = yield* ips.add(payload, yield* origin)
          return createdAt(`/auth/api/v1/settings/ips/${entry.id}`, entry)
        }),
      )
      .handle("ip", ({ params }) => Effect.map(ips.get(params.id), withVersion))
      .handle(
        "updateIp",
        Effect.fnUntraced(function*({ headers, params, payload }) {
          const expected = yield* expectedVersion(headers)
          return withVersion(yield* ips.update(params.id, payload, yield* origin, expected))
        }),
      )
      .handle(
        "removeIp",
        Effect.fnUntraced(function*({ headers, params, query }) {
          yield* ips.remove(params.id, query.force === "true", yield* origin, yield* expectedVersion(headers))
        }),
      )
      .handle("ipCheck", () => Effect.flatMap(origin, management.check))
      .handle("smtpSettings", () => Effect.map(smtp.settings(), withVersion))
      .handle(
        "updateSmtpSettings",
        Effect.fnUntraced(function*({ headers, payload }) {
          return withVersion(yield* smtp.update(payload, yield* expectedVersion(headers)))
        }),
      )
      .handle("testSmtp", ({ payload }) => smtp.test(payload))
  }),
)
