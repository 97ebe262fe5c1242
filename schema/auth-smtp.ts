/**
 * Words of outgoing mail: the settings of the mail server, and what can go wrong on the way to it.
 *
 * Invariants
 * 1. The password goes in and never comes out: a read says `hasPassword`.
 * 2. What the server said is told, cut to a bound; what was said to it (a password) never is.
 */
import { type Redacted, Schema } from "effect"

/** Why a mail did not go, or a server could not be used. */
export const MailReason = Schema.Literals([
  "notConfigured", // no server was ever set
  "unavailable", // the settings cannot be read now
  "refused", // no connection: refused, unreachable, unknown host, cut off
  "tls", // the certificate is not trusted, or there is no encryption where it was asked for
  "login", // the server does not take the name or the password
  "rejected", // the server does not take the sender, the recipient or the message
  "timeout", // no answer in time
])
export type MailReason = typeof MailReason.Type

/** A mail did not go. */
export class MailFailed extends Schema.TaggedError<MailFailed>()("MailFailed", {
  reason: MailReason,
  /** For a person; at most 500 characters. */
  detail: Schema.String,
  /** The same mail may go later: not so after a permanent refusal (5yz of RFC 5321, section 4.2.1). */
  retryable: Schema.Boolean,
}, { httpApiStatus: 502 }) {
  override get message(): string {
    return `The mail did not go (${this.reason}): ${this.detail}`
  }
}

/** An attachment of a mail. */
export interface MailAttachment {
  readonly filename: string
  /** `image/jpeg` */
  readonly contentType: string
  readonly content: Uint8Array
  /** Names it within the HTML as `cid:<contentId>`; it is then shown inline. */
  readonly contentId?: string
}

export interface Mail {
  /** Addresses (RFC 5321, section 4.1.2), 1 to 100. */
  readonly to: ReadonlyArray<string>
  readonly subject: string
  readonly text: string
  readonly html?: string
  /** At most 10 MiB together. */
  readonly attachments?: ReadonlyArray<MailAttachment>
}

/** `none`: clear text; `starttls`: clear text that must become encrypted (RFC 3207); `tls`: encrypted from the start (RFC 8314). */
export const MailSecurity = Schema.Literals(["none", "starttls", "tls"])
export type MailSecurity = typeof MailSecurity.Type

/** What a connection needs to know. */
export interface MailServer {
  readonly host: string
  readonly port: number
  readonly security: MailSecurity
  readonly username: string | null
  readonly password: Redacted.Redacted | null
  /** Address that mails are from. */
  readonly from: string
  /** PEM; what the certificate must be signed by, instead of what the system trusts. */
  readonly caCertificate: string | null
  /** Any certificate is taken. */
  readonly allowUnverified: boolean
}

/** An address without a name; no quoted local parts, which nobody has. */
export const MailAddress = Schema.String.check(
  Schema.isMaxLength(254),
  Schema.isPattern(/^[^\s@<>()[\]",;:\\\p{C}]{1,64}@[^\s@<>()[\]",;:\\\p{C}]{1,253}$/u),
)

const host = Schema.String.check(Schema.isMaxLength(253), Schema.isPattern(/^[A-Za-z0-9._:-]{1,253}$/))
const port = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 }))
const pem = Schema.String.check(
  Schema.isMaxLength(65_536),
  Schema.isPattern(/^\s*-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s-]+-----END CERTIFICATE-----\s*$/),
)
/** What may stand in an `AUTH` exchange: no control characters. */
const login = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(256), Schema.isPattern(/^\P{Cc}+$/u))

/** The mail server as it is set; before that, defaults with `configured: false`. */
export const SmtpSettings = Schema.Struct({
  configured: Schema.Boolean,
  host: Schema.String,
  port: Schema.Int,
  security: MailSecurity,
  username: Schema.NullOr(Schema.String),
  hasPassword: Schema.Boolean,
  from: Schema.String,
  caCertificate: Schema.NullOr(Schema.String),
  /** Any certificate is taken, also a forged one; every log line about a mail says so. */
  allowUnverified: Schema.Boolean,
  version: Schema.Int,
}).annotate({ identifier: "SmtpSettings" })
export type SmtpSettings = typeof SmtpSettings.Type

/** Replaces the settings, but for a password that is left out while it goes to the same server in the same way. */
export const SmtpSettingsUpdate = Schema.Struct({
  host,
  port,
  security: MailSecurity,
  from: MailAddress,
  /** None if left out. */
  username: Schema.optionalKey(Schema.NullOr(login)),
  /** Left out: the kept one; `null`: none. */
  password: Schema.optionalKey(Schema.NullOr(login.pipe(Schema.RedactedFromValue))),
  caCertificate: Schema.optionalKey(Schema.NullOr(pem)),
  /** `false` if left out. */
  allowUnverified: Schema.optionalKey(Schema.Boolean),
})
export type SmtpSettingsUpdate = typeof SmtpSettingsUpdate.Type

export const SmtpTest = Schema.Struct({
  /** Where to send a mail; without it the server is only connected to and signed in at. */
  to: Schema.optionalKey(MailAddress),
  /** Settings to try before they are kept; the kept ones if left out. */
  settings: Schema.optionalKey(SmtpSettingsUpdate),
})
export type SmtpTest = typeof SmtpTest.Type

/** What became of a test. */
export const SmtpTestResult = Schema.Struct({
  outcome: Schema.Union([Schema.Literal("ok"), MailReason]),
  /** For a person. */
  detail: Schema.String,
  /** A mail was taken by the server. */
  sent: Schema.Boolean,
  tookMs: Schema.Int,
}).annotate({ identifier: "SmtpTestResult" })
export type SmtpTestResult = typeof SmtpTestResult.Type
