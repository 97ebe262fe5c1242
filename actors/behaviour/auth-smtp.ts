/**
 * The mail server: its settings, its test, and {@link Mailer}, by which every slice sends.
 *
 * Invariants
 * 1. The kept password goes nowhere but to the server it was given for: another host, port, name or a weaker protection asks for
 *    it again. It never goes over clear text unless the settings say `allowUnverified` out loud.
 * 2. At most {@link parallel} mails are on their way at once, and one waits at most {@link waits} for its turn.
 */
import { Mailer, Smtp } from "#actors/protocol/auth-smtp.ts"
import {
  type Mail,
  MailFailed,
  type MailServer,
  type SmtpSettings,
  type SmtpSettingsUpdate,
} from "#schema/auth-smtp.ts"
import { InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Layer, type Redacted, Result, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { X509Certificate } from "node:crypto"
import { checkServer, sendMail } from "../channels/email.ts"
import { answered } from "../store/answer.ts"
import { AuthSmtpStore, type SmtpRow } from "../store/auth-smtp.ts"

/** What a mail server takes from one client without complaint; a mail with a picture is some 10 MiB of memory at most. */
const parallel = 4
const waits = "10 seconds"

const passwordContext = "auth/smtp/password"

/** A request has 30 s in all unless the operator says otherwise. */
const testLongest = "25 seconds"

const unavailable = () =>
  new MailFailed({ reason: "unavailable", detail: "The settings of the mail server cannot be read", retryable: true })
const notConfigured = new MailFailed({ reason: "notConfigured", detail: "No mail server was set", retryable: false })
const busy = new MailFailed({ reason: "timeout", detail: "Too many mails are on their way", retryable: true })
const slow = new MailFailed({
  reason: "timeout",
  detail: `The server did not finish within ${testLongest}`,
  retryable: true,
})
const notOpened = new MailFailed({
  reason: "login",
  detail: "The kept password was sealed under a master key that this node does not have; give it again",
  retryable: false,
})

const testMail = (to: string): Mail => ({
  to: [to],
  subject: "Test of the mail settings",
  text: "This mail was sent to test the mail settings. If you can read it, they work.",
})

const unset: SmtpSettings = {
  configured: false,
  host: "",
  port: 587,
  security: "starttls",
  username: null,
  hasPassword: false,
  from: "",
  caCertificate: null,
  allowUnverified: false,
  version: 0,
}

const shown = (row: SmtpRow | null): SmtpSettings =>
  row === null ? unset : {
    configured: true,
    host: row.host,
    port: row.port,
    security: row.security,
    username: row.username,
    hasPassword: row.sealedPassword !== null,
    from: row.fromAddress,
    caCertificate: row.caCertificate,
    allowUnverified: row.allowUnverified,
    version: row.version,
  }

/** The kept password may follow: it goes to the same server, protected no worse. */
const sameWay = (row: SmtpRow, update: SmtpSettingsUpdate): boolean =>
  row.host === update.host && row.port === update.port && row.username === (update.username ?? null) &&
  (row.security === update.security || update.security === "tls") &&
  (row.allowUnverified || !(update.allowUnverified ?? false)) &&
  row.caCertificate === (update.caCertificate ?? null)

const isCertificate = (pem: string): boolean => {
  try {
    return new X509Certificate(pem).raw.length > 0
  } catch {
    return false
  }
}

const make = Effect.gen(function*() {
  const store = yield* AuthSmtpStore
  const vault = yield* Vault
  const permits = yield* Semaphore.make(parallel)

  /** In a turn of its own, or the failure that says there was none. */
  const inTurn = <A>(work: Effect.Effect<A, MailFailed>): Effect.Effect<A, MailFailed> =>
    Effect.scoped(Effect.andThen(
      Effect.acquireRelease(
        Effect.timeoutOrElse(permits.take(1), {
          duration: waits,
          orElse: () => Effect.fail(busy),
        }),
        () => permits.release(1),
        { interruptible: true },
      ),
      work,
    ))

  const keptPassword = (row: SmtpRow | null) =>
    row === null || row.sealedPassword === null ?
      Effect.succeed(null) :
      Effect.mapError(vault.open(passwordContext, row.sealedPassword), () => notOpened)

  const serverOf = (row: SmtpRow) =>
    Effect.map(keptPassword(row), (password): MailServer => ({
      host: row.host,
      port: row.port,
      security: row.security,
      username: row.username,
      password,
      from: row.fromAddress,
      caCertificate: row.caCertificate,
      allowUnverified: row.allowUnverified,
    }))

  /** The server that an update describes, with the kept password where it may follow. */
  const described = Effect.fnUntraced(function*(update: SmtpSettingsUpdate, row: SmtpRow | null, at: string) {
    const { allowUnverified = false, caCertificate = null, username = null } = update
    let password: Redacted.Redacted | null = null
    if (update.password !== undefined) password = update.password
    else if (row !== null && row.sealedPassword !== null && username !== null) {
      if (!sameWay(row, update)) {
        const message = "the kept password was given for another server, name or protection; give it again"
        return yield* InvalidInput.at(`${at}/password`, message)
      }
      password = yield* Effect.mapError(
        keptPassword(row),
        (failure) => InvalidInput.at(`${at}/password`, failure.detail),
      )
    }
    if (username === null && password !== null) {
      return yield* InvalidInput.at(`${at}/username`, "a password needs a name")
    }
    if (caCertificate !== null && !isCertificate(caCertificate)) {
      return yield* InvalidInput.at(`${at}/caCertificate`, "expected one certificate in PEM")
    }
    if (password !== null && update.security === "none" && !allowUnverified) {
      const message = "a password is not sent in clear text; choose starttls or tls, or say allowUnverified"
      return yield* InvalidInput.at(`${at}/security`, message)
    }
    const { from, host, port, security } = update
    return { host, port, security, from, username, password, caCertificate, allowUnverified } satisfies MailServer
  })

  const told = (server: MailServer) =>
    server.allowUnverified ?
      Effect.logWarning(`The certificate of the mail server ${server.host} is not verified (allowUnverified)`) :
      Effect.void

  const smtp = Smtp.of({
    settings: () => answered(Effect.map(store.get, shown)),
    update: Effect.fnUntraced(function*(update, expectedVersion) {
      const row = yield* store.changing(Effect.gen(function*() {
        const before = yield* store.get
        const version = before?.version ?? 0
        if (expectedVersion !== null && expectedVersion !== version) {
          return yield* new VersionConflict({ message: "The mail server was changed by somebody else" })
        }
        const server = yield* described(update, before, "/payload")
        yield* told(server)
        const sealedPassword = server.password === null ? null : yield* vault.seal(passwordContext, server.password)
        const { allowUnverified, caCertificate, from: fromAddress, host, port, security, username } = server
        const after: SmtpRow = {
          host,
          port,
          security,
          username,
          sealedPassword,
          fromAddress,
          caCertificate,
          allowUnverified,
          version: version + 1,
        }
        yield* store.put(after)
        return after
      }))
      return shown(row)
    }, answered),
    test: Effect.fnUntraced(function*({ settings, to }) {
      const row = yield* store.get
      const startedMs = yield* Clock.currentTimeMillis
      const server = settings !== undefined ?
        Effect.succeed(yield* described(settings, row, "/payload/settings")) :
        row === null ?
        Effect.fail(notConfigured) :
        serverOf(row)
      const trial = Effect.gen(function*() {
        const known = yield* server
        yield* told(known)
        if (to === undefined) yield* checkServer(known)
        else yield* sendMail(known, testMail(to))
        return to === undefined ? `${known.host} can be used` : `${known.host} took a mail to ${to}`
      })
      // A test is one of the mails on their way, and must end before the request does.
      const ended = yield* Effect.result(
        Effect.timeoutOrElse(inTurn(trial), { duration: testLongest, orElse: () => Effect.fail(slow) }),
      )
      const tookMs = (yield* Clock.currentTimeMillis) - startedMs
      return Result.isSuccess(ended) ?
        { outcome: "ok" as const, detail: ended.success, sent: to !== undefined, tookMs } :
        { outcome: ended.failure.reason, detail: ended.failure.detail, sent: false, tookMs }
    }, answered),
  })

  const mailer = Mailer.of({
    send: Effect.fnUntraced(function*(mail: Mail) {
      const row = yield* Effect.mapError(answered(store.get), unavailable)
      if (row === null) return yield* notConfigured
      const server = yield* serverOf(row)
      yield* told(server)
      yield* inTurn(sendMail(server, mail))
    }),
  })
  return { smtp, mailer }
})

/** The mail server over PostgreSQL. */
export const smtpLayer: Layer.Layer<Smtp | Mailer, never, SqlClient.SqlClient | Vault> = Layer.unwrap(
  Effect.map(make, ({ mailer, smtp }) => Layer.mergeAll(Layer.succeed(Smtp, smtp), Layer.succeed(Mailer, mailer))),
)
