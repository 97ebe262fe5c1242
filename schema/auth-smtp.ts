/**
 * Words of outgoing mail: the settings of the mail server, and what can go wrong on the way to it.
 *
 * Invariants
 * 1. The password goes in and never comes out: a read says `hasPassword`.
 * 2. What the server said is told, cut to a bound; what was said to it (a password) never is.
 */
import { Schema } from "effect"

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
