/**
 * The door to secrets at rest. Whatever is kept on disk or in the database and must not be read there (camera passwords,
 * signing keys) passes through it. The implementation stands in `cluster/vault.ts`.
 *
 * Invariants
 * 1. A sealed text opens only under the context it was sealed for: one that was moved to another row or file is refused.
 * 2. No error carries a part of the secret.
 */
import { Context, type Effect, type Redacted, Schema } from "effect"

/** A sealed text cannot be opened. */
export class VaultError extends Schema.TaggedError<VaultError>()("VaultError", {
  reason: Schema.Literals([
    "malformed", // not a sealed text
    "unknownKey", // sealed under a key this node does not have
    "forged", // changed, or sealed for another context
  ]),
  context: Schema.String,
}) {
  override get message(): string {
    return `The secret of ${this.context} cannot be opened: ${this.reason}`
  }
}

export class Vault extends Context.Service<Vault, {
  /**
   * Seals a secret. `context` names its place, such as `camera/<id>/password`; it is bound to the seal, not kept in it.
   * Printable ASCII without blanks comes out: about 4/3 of the secret's UTF-8 length plus 62 characters.
   */
  readonly seal: (context: string, secret: Redacted.Redacted) => Effect.Effect<string>
  readonly open: (context: string, sealed: string) => Effect.Effect<Redacted.Redacted, VaultError>
}>()("nightjar/Vault") {}
