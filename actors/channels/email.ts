/**
 * E-mail by SMTP (RFC 5321): one connection a mail, to a server that an administrator named.
 *
 * Invariants
 * 1. Every step has a limit, and so has the whole ({@link defaultLimits}); what has not ended by then is cut off.
 * 2. `starttls` that the server does not offer is a failure, never clear text. TLS is 1.2 at least.
 * 3. Nothing is read from files or URLs on behalf of a mail, whatever its text says.
 */
import { type Mail, MailFailed, type MailReason, type MailServer } from "#schema/auth-smtp.ts"
import { Effect, Redacted } from "effect"
import { createTransport, type Transporter } from "nodemailer"
import type SMTPTransport from "nodemailer/lib/smtp-transport"

/** Milliseconds. */
export interface MailLimits {
  readonly connectMs: number
  /** Without a byte from the server. */
  readonly idleMs: number
  /** For all of it. */
  readonly longestMs: number
}

/**
 * A server on the internet answers within a second, one that delays on purpose within some ten. The whole is enough for 10 MiB
 * at 1 Mbit/s.
 */
const defaultLimits: MailLimits = { connectMs: 15_000, idleMs: 30_000, longestMs: 110_000 }
const longestDetail = 500

type Transport = Transporter<SMTPTransport.SentMessageInfo, SMTPTransport.Options>

const transportOf = (server: MailServer, { connectMs, idleMs }: MailLimits): Transport =>
  createTransport({
    host: server.host,
    port: server.port,
    secure: server.security === "tls",
    requireTLS: server.security === "starttls",
    ignoreTLS: server.security === "none",
    ...(server.username === null ? {} : {
      auth: { user: server.username, pass: server.password === null ? "" : Redacted.value(server.password) },
    }),
    tls: {
      minVersion: "TLSv1.2",
      rejectUnauthorized: !server.allowUnverified,
      ...(server.caCertificate === null ? {} : { ca: server.caCertificate }),
    },
    connectionTimeout: connectMs,
    greetingTimeout: connectMs,
    dnsTimeout: connectMs,
    socketTimeout: idleMs,
    disableFileAccess: true,
    disableUrlAccess: true,
  })

/** What the library's errors carry. */
interface SmtpError {
  readonly code?: string
  /** Of the system or of OpenSSL, where `code` is the library's own. */
  readonly originalCode?: string
  readonly responseCode?: number
  readonly message?: string
}

const certificateCode = /CERT|SSL|TLS|^EPROTO$|UNABLE_TO_|SELF_SIGNED|HOSTNAME_MISMATCH|CRL|CHAIN|PATH_LENGTH/

const reasonOf = ({ code = "", originalCode = "" }: SmtpError): MailReason => {
  if (code === "ETLS" || certificateCode.test(originalCode)) return "tls"
  if (code === "ETIMEDOUT" || originalCode === "ETIMEDOUT") return "timeout"
  if (code === "EAUTH" || code === "ENOAUTH") return "login"
  if (code === "EENVELOPE" || code === "EMESSAGE" || code === "EMAXRECIPIENTS") return "rejected"
  return "refused"
}

const cut = (text: string): string => text.replace(/\p{C}+/gu, " ").trim().slice(0, longestDetail)

const failureOf = (error: SmtpError): MailFailed => {
  const reason = reasonOf(error)
  const permanent = (error.responseCode ?? 0) >= 500
  // Without an answer of the server, a certificate or a login stays wrong until somebody changes something.
  const retryable = reason === "refused" || reason === "timeout" ? true : error.responseCode !== undefined && !permanent
  return new MailFailed({ reason, detail: cut(error.message ?? "no reason was given"), retryable })
}

const tooLong = ({ longestMs }: MailLimits) =>
  new MailFailed({
    reason: "timeout",
    detail: `The server did not finish within ${longestMs / 1000} s`,
    retryable: true,
  })

/** Uses a connection of its own, which ends with it. */
const connected = <A>(
  server: MailServer,
  limits: MailLimits,
  use: (transport: Transport, signal: AbortSignal) => Promise<A>,
) =>
  Effect.acquireUseRelease(Effect.sync(() => transportOf(server, limits)), (transport) =>
    Effect.tryPromise({
      try: (signal) => use(transport, signal),
      catch: (error) => failureOf(error as SmtpError),
    }), (transport) => Effect.sync(() => transport.close())).pipe(
      Effect.timeoutOrElse({ duration: limits.longestMs, orElse: () => Effect.fail(tooLong(limits)) }),
    )

/** Connects, encrypts and signs in as the settings say, and leaves. */
export const checkServer = (server: MailServer, limits: MailLimits = defaultLimits): Effect.Effect<void, MailFailed> =>
  Effect.asVoid(connected(server, limits, (transport) => transport.verify()))

/** Hands a mail to the server. */
export const sendMail = (
  server: MailServer,
  mail: Mail,
  limits: MailLimits = defaultLimits,
): Effect.Effect<void, MailFailed> =>
  connected(server, limits, (transport, signal) =>
    transport.sendMail({
      from: server.from,
      to: [...mail.to],
      subject: mail.subject,
      text: mail.text,
      ...(mail.html === undefined ? {} : { html: mail.html }),
      attachments: (mail.attachments ?? []).map(({ content, contentId, contentType, filename }) => ({
        filename,
        contentType,
        content: Buffer.from(content),
        ...(contentId === undefined ? {} : { cid: contentId }),
      })),
      signal,
      // A machine wrote it: nobody's holiday notice should answer (RFC 3834, section 5).
      headers: { "auto-submitted": "auto-generated" },
    })).pipe(Effect.flatMap(({ rejected }) => {
      if (rejected.length === 0) return Effect.void
      const detail = cut(`The server took the mail, but not for ${rejected.map(String).join(", ")}`)
      // Sent again, it would reach the others twice.
      return Effect.fail(new MailFailed({ reason: "rejected", detail, retryable: false }))
    }))
