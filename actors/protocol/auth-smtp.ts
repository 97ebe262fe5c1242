/**
 * Outgoing mail: the door through which any slice sends one, and the settings of the server that takes it.
 *
 * Invariants
 * 1. `send` ends within two minutes, whatever the server does; a failure tells its kind and whether trying again makes sense.
 * 2. It answers when the server has taken the mail for every recipient; one that was refused for any of them has failed.
 */
import type { Mail, MailFailed, SmtpSettings, SmtpSettingsUpdate, SmtpTest, SmtpTestResult } from "#schema/auth-smtp.ts"
import type { DependencyUnavailable, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

export class Mailer extends Context.Service<Mailer, {
  readonly send: (mail: Mail) => Effect.Effect<void, MailFailed>
}>()("nightjar/actors/Mailer") {}

export class Smtp extends Context.Service<Smtp, {
  readonly settings: () => Effect.Effect<SmtpSettings, DependencyUnavailable>
  /** `InvalidInput` where a kept password would go to another server, or over a connection that anybody can read. */
  readonly update: (
    update: SmtpSettingsUpdate,
    expectedVersion: number | null,
  ) => Effect.Effect<SmtpSettings, InvalidInput | VersionConflict | DependencyUnavailable>
  readonly test: (test: SmtpTest) => Effect.Effect<SmtpTestResult, InvalidInput | DependencyUnavailable>
}>()("nightjar/actors/Smtp") {}
