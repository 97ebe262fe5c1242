/** Handlers of the network group. */
import { SecondFactors } from "#actors/protocol/auth-factor.ts"
import { ManagementAccess, ManagementIps } from "#actors/protocol/auth-network.ts"
import { Smtp } from "#actors/protocol/auth-smtp.ts"
import { MasterKeyRenewal } from "#actors/protocol/auth-vault.ts"
import type { Caller } from "#actors/protocol/auth.ts"
import type { CallOrigin } from "#schema/auth-network.ts"
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { NetworkGroup } from "../contract/auth-network.ts"
import { acceptedAt, createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"

const origin: Effect.Effect<CallOrigin> = Effect.map(
  CurrentRequest,
  (info) => ({ address: info?.address ?? "", proxied: info?.proxied ?? true }),
)

const caller: Effect.Effect<Caller, never, HttpServerRequest.HttpServerRequest> = Effect.gen(function*() {
  const request = yield* HttpServerRequest.HttpServerRequest
  return { address: (yield* origin).address, userAgent: request.headers["user-agent"] ?? "" }
})

export const NetworkHandlers = HttpApiBuilder.group(
  nightjar.add(NetworkGroup),
  "network",
  Effect.fnUntraced(function*(handlers) {
    const ips = yield* ManagementIps
    const management = yield* ManagementAccess
    const smtp = yield* Smtp
    const factors = yield* SecondFactors
    const renewal = yield* MasterKeyRenewal
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
      .handle("secondFactor", () => Effect.flatMap(currentUser, factors.state))
      .handle(
        "enrolSecondFactor",
        Effect.fnUntraced(function*({ payload }) {
          return yield* factors.enrol(yield* currentUser, payload.password, yield* caller)
        }),
      )
      .handle(
        "confirmSecondFactor",
        Effect.fnUntraced(function*({ payload }) {
          return yield* factors.confirm(yield* currentUser, payload.otp, yield* caller)
        }),
      )
      .handle(
        "disableSecondFactor",
        Effect.fnUntraced(function*({ payload }) {
          yield* factors.disable(yield* currentUser, payload, yield* caller)
        }),
      )
      .handle(
        "renewRecoveryCodes",
        Effect.fnUntraced(function*({ payload }) {
          return yield* factors.renewCodes(yield* currentUser, payload, yield* caller)
        }),
      )
      .handle(
        "resetSecondFactor",
        Effect.fnUntraced(function*({ params }) {
          yield* factors.reset(yield* currentUser, params.id)
        }),
      )
      .handle("smtpSettings", () => Effect.map(smtp.settings(), withVersion))
      .handle(
        "updateSmtpSettings",
        Effect.fnUntraced(function*({ headers, payload }) {
          return withVersion(yield* smtp.update(payload, yield* expectedVersion(headers)))
        }),
      )
      .handle("masterKey", () => renewal.state())
      .handle(
        "rotateMasterKey",
        () => Effect.map(renewal.rotate(), (state) => acceptedAt("/auth/api/v1/settings/master-key", state)),
      )
      .handle("testSmtp", ({ payload }) => smtp.test(payload))
  }),
)
