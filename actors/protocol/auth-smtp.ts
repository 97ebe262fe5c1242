/**
 * Outgoing mail: the door through which any slice sends one. The server is set by an administrator.
 *
 * Invariants
 * 1. `send` ends within two minutes, whatever the server does; a failure tells its kind and whether trying again makes sense.
 * 2. It answers when the server has taken the mail for every recipient; one that was refused for any of them has failed.
 */
import type { MailFailed } from "#schema/auth-smtp.ts"
import { Context, type Effect } from "effect"

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

export class Mailer extends Context.Service<Mailer, {
  readonly send: (mail: Mail) => Effect.Effect<void, MailFailed>
}>()("nightjar/actors/Mailer") {}
