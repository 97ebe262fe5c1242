/**
 * The vendor's licence server: four requests, each a `POST` of JSON over HTTPS (plain HTTP to this machine alone). `http/README.md`
 * tells the protocol in full.
 *
 * Invariants
 * 1. An answer of more than {@link largestAnswer} or after {@link patienceMs} is none. Redirects are not followed.
 * 2. What was not heard is asked again, {@link attempts} times in all; a refusal is not. Each request may come twice: the server
 *    knows it by `requestId` or `nonce`.
 * 3. Only what the vendor signed is believed: a licence or a statement, never a bare JSON member. A refusal alone is not signed, and
 *    it changes nothing of what is installed.
 */
import { type OutboundAnswer, OutboundFailed, post } from "#actors/channels/outbound.ts"
import {
  LicenseRefused,
  LicenseRelease,
  LicenseRequest,
  LicenseServerFaulty,
  LicenseServerUnreachable,
  LicenseText,
} from "#schema/license.ts"
import { NotSupported } from "#schema/problem.ts"
import { Effect, Redacted, Schedule, Schema } from "effect"

/** A licence with 64 features and its statement are below 16 KiB. */
const largestAnswer = 64 * 1024
/** For one attempt; three of them and the waits between fit into a request's 30 s. */
const patienceMs = 8_000
const attempts = 3
const again = Schedule.exponential("300 millis").pipe(Schedule.jittered, Schedule.upTo({ times: attempts - 1 }))

const word = Schema.String.check(Schema.isMaxLength(64))
const Refusal = Schema.fromJsonString(
  Schema.Struct({ code: word, message: Schema.String.check(Schema.isMaxLength(500)) }),
)
const Granted = Schema.fromJsonString(Schema.Struct({ license: LicenseText }))
const Confirmed = Schema.fromJsonString(
  Schema.Struct({ statement: LicenseText, license: Schema.optionalKey(LicenseText) }),
)
const Released = Schema.fromJsonString(Schema.Struct({ released: Schema.Literal(true) }))

const RequestJson = Schema.toCodecJson(LicenseRequest)
const ReleaseJson = Schema.toCodecJson(LicenseRelease)

const unreachable = (error: OutboundFailed) =>
  new LicenseServerUnreachable({
    reason: error.reason === "forbidden" ? "connection" : error.reason,
    detail: error.detail,
  })

/** Text of an answer that is whole; a 5xx is the server's own trouble. */
const accepted = (answer: OutboundAnswer): Effect.Effect<string, LicenseServerFaulty | LicenseRefused> => {
  if (answer.cut) {
    return Effect.fail(new LicenseServerFaulty({ detail: `it is longer than ${largestAnswer} bytes` }))
  }
  const text = answer.body.toString("utf8")
  if (answer.status === 200 || answer.status === 202) return Effect.succeed(text)
  if (answer.status < 400 || answer.status >= 500) {
    return Effect.fail(new LicenseServerFaulty({ detail: `status ${answer.status}` }))
  }
  return Schema.decodeEffect(Refusal)(text).pipe(
    Effect.mapError(() => new LicenseServerFaulty({ detail: `status ${answer.status} without a reason` })),
    Effect.flatMap(({ code, message }) =>
      Effect.fail(new LicenseRefused({ vendorCode: code, vendorMessage: message }))
    ),
  )
}

const decoded = <A>(schema: Schema.Codec<A, string>) => (text: string) =>
  Effect.mapError(
    Schema.decodeEffect(schema)(text),
    (error) => new LicenseServerFaulty({ detail: error.message.slice(0, 300) }),
  )

/** What the server is asked. `url`: `null` where none is configured. */
export const makeLicenseServer = (url: string | null) => {
  const ask = Effect.fnUntraced(function*(path: string, body: object) {
    if (url === null) {
      return yield* new NotSupported({ message: "No licence server is configured (NIGHTJAR_LICENSE_SERVER)" })
    }
    const answer = yield* post({
      url: new URL(`${url.replace(/\/+$/, "")}/v1/${path}`),
      headers: { "content-type": "application/json", accept: "application/json" },
      body: JSON.stringify(body),
      timeoutMs: patienceMs,
      maxAnswerBytes: largestAnswer,
    }).pipe(
      Effect.filterOrFail(
        ({ status }) => status < 500,
        ({ status }) => new LicenseServerFaulty({ detail: `status ${status}` }),
      ),
      // A name or a certificate that is wrong now is wrong in a second.
      Effect.retry({
        schedule: again,
        while: (error) =>
          error._tag === "LicenseServerFaulty" || error.reason === "connection" || error.reason === "timeout",
      }),
      Effect.mapError((error) => error instanceof OutboundFailed ? unreachable(error) : error),
    )
    return { pending: answer.status === 202, text: yield* accepted(answer) }
  })
  return {
    /** Exchanges a code for a licence. */
    activate: Effect.fnUntraced(function*(activationCode: Redacted.Redacted, request: LicenseRequest) {
      const encoded = yield* Effect.orDie(Schema.encodeEffect(RequestJson)(request))
      const answer = yield* ask("activations", { activationCode: Redacted.value(activationCode), request: encoded })
      if (answer.pending) {
        return yield* new LicenseRefused({
          vendorCode: "pending",
          vendorMessage: "the activation waits for approval; try again later",
        })
      }
      return (yield* decoded(Granted)(answer.text)).license
    }),
    /** A lease for a key; `null` while the vendor has not approved it. */
    lease: Effect.fnUntraced(function*(key: Redacted.Redacted, request: LicenseRequest) {
      const encoded = yield* Effect.orDie(Schema.encodeEffect(RequestJson)(request))
      const answer = yield* ask("leases", { key: Redacted.value(key), request: encoded })
      return answer.pending ? null : (yield* decoded(Granted)(answer.text)).license
    }),
    /** A signed statement about a lease, and a new lease where the vendor renews it. */
    verify: Effect.fnUntraced(
      function*(
        lease: { readonly licenseId: string; readonly key: Redacted.Redacted; readonly hardwareId: string },
        nonce: string,
      ) {
        const body = { licenseId: lease.licenseId, key: Redacted.value(lease.key), hardwareId: lease.hardwareId, nonce }
        return yield* decoded(Confirmed)((yield* ask("leases/verify", body)).text)
      },
    ),
    /** The key is free again. */
    release: Effect.fnUntraced(function*(key: Redacted.Redacted, receipt: LicenseRelease) {
      const encoded = yield* Effect.orDie(Schema.encodeEffect(ReleaseJson)(receipt))
      yield* decoded(Released)((yield* ask("leases/release", { key: Redacted.value(key), receipt: encoded })).text)
    }),
  }
}
