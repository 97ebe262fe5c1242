/**
 * Who may call: the implementation of the contract's {@link AccessControl}.
 *
 * Invariants
 * 1. The decision is made before anything of the request is decoded: 401 and 403 tell nothing of the input.
 * 2. An endpoint without an access rule is denied.
 * 3. An administrative permission is of use from a listed management address only, where such addresses are listed.
 */
import { ManagementAccess } from "#actors/protocol/auth-network.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { isLoopback } from "#schema/auth-network.ts"
import { PasswordChangeRequired } from "#schema/auth-security.ts"
import { anonymous, decide, permissionDefinitions } from "#schema/permission.ts"
import { Forbidden } from "#schema/problem.ts"
import { Context, Effect, Layer, Option, type Redacted } from "effect"
import { HttpServerRequest } from "effect/http"
import { Access, type AccessAnnotation, AccessControl, CurrentPrincipal } from "../contract/access.ts"
import { CurrentRequest } from "../contract/errors.ts"

/** A caller on this machine that no proxy speaks for. */
const fromThisMachine = Effect.map(CurrentRequest, (info) => info !== null && isLoopback(info.address) && !info.proxied)

/** A WebSocket handshake (RFC 6455, section 4.1) without a token of its own. */
const asksInChannel = Effect.map(HttpServerRequest.HttpServerRequest, ({ headers }) =>
  headers["upgrade"]?.toLowerCase() === "websocket" && headers["authorization"] === undefined)

const origin = Effect.map(CurrentRequest, (info) => ({ address: info?.address ?? "", proxied: info?.proxied ?? true }))

export const AccessControlLive = Layer.effect(
  AccessControl,
  Effect.gen(function*() {
    const tokens = yield* AccessTokens
    const management = yield* ManagementAccess

    const principalOf = Effect.fnUntraced(function*(credential: Redacted.Redacted) {
      const principal = yield* tokens.verify(credential)
      const info = yield* CurrentRequest
      if (info !== null) info.journal.user = principal.username
      return principal
    })

    const admit = Effect.fnUntraced(function*(credential: Redacted.Redacted, access: AccessAnnotation | null) {
      if (access === null) {
        return yield* new Forbidden({ message: "This operation declares no permission and is closed" })
      }
      const { rule } = access
      if (rule === "public" || rule === "capability") return anonymous
      if (access.orLoopback && (yield* fromThisMachine)) return anonymous
      if (access.inChannel && (yield* asksInChannel)) return anonymous
      const principal = yield* principalOf(credential)
      if (
        principal.mustChangePassword === true && !access.beforePasswordChange
      ) return yield* new PasswordChangeRequired()
      if (rule === "signedIn") return principal
      const decision = decide(principal, rule)
      if (!decision.allowed) return yield* new Forbidden({ message: decision.reason })
      if (permissionDefinitions[rule].administrative) {
        const from = yield* management.check(yield* origin)
        if (!from.allowed) return yield* new Forbidden({ message: `${rule} is administrative: ${from.reason}` })
      }
      return principal
    })

    return AccessControl.of({
      bearer: Effect.fnUntraced(function*(handler, { credential, endpoint, group }) {
        const annotations = Context.merge(group.annotations, endpoint.annotations)
        const access = Option.getOrNull(Context.getOption(annotations, Access))
        const info = yield* CurrentRequest
        if (info !== null) {
          info.journal.route = endpoint.path
          info.journal.secretPath = access?.rule === "capability"
        }
        const principal = yield* admit(credential, access)
        return yield* Effect.provideService(handler, CurrentPrincipal, principal)
      }),
    })
  }),
)
