/**
 * The door to secrets at rest. Whatever is kept on disk or in the database and must not be read there (camera passwords,
 * signing keys) passes through it. The implementation stands in `cluster/vault.ts`.
 *
 * Invariants
 * 1. A sealed text opens only under the context it was sealed for: one that was moved to another row or file is refused.
 * 2. No error carries a part of the secret.
 */
import { Context, Effect, type Redacted, Schema, type Stream } from "effect"

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

/**
 * The vault of this node alone, where {@link Vault} seals for the whole cluster: for what only this node may open (files of its
 * own, the keys it signs tokens with). Null where there is no other.
 */
export const NodeVault = Context.Reference<Vault["Service"] | null>("nightjar/NodeVault", { defaultValue: () => null })

/** {@link NodeVault}, or the only vault there is. */
export const ownVault: Effect.Effect<Vault["Service"], never, Vault> = Effect.gen(function*() {
  return (yield* NodeVault) ?? (yield* Vault)
})

/** Ids of the keys that all members of the cluster have. */
export interface SharedKeyIds {
  /** The key that seals what stands in the database. */
  readonly sealing: string
  /** Keys of before, which still open. */
  readonly older: ReadonlyArray<string>
}

/** The ids at once and after each change, null while this node has no key of the cluster; null where there is no cluster. */
export const SharedKeys = Context.Reference<Stream.Stream<SharedKeyIds | null> | null>("nightjar/SharedKeys", {
  defaultValue: () => null,
})

/** Id of the key that a text was sealed under; `null` if it is no sealed text. */
export const keyIdOf = (sealed: string): string | null => /^nj1\.([0-9a-f]{12})\./.exec(sealed)?.[1] ?? null

/** The key is the operator's: where it is given, it is changed there. */
export class MasterKeyGiven extends Schema.TaggedError<MasterKeyGiven>()("MasterKeyGiven", {}, { httpApiStatus: 409 }) {
  override get message(): string {
    return "The master key is given by NIGHTJAR_MASTER_KEY; change it there, with the one of before in the data folder's master.key"
  }
}

/** The file of the master key cannot be written. */
export class MasterKeyNotKept extends Schema.TaggedError<MasterKeyNotKept>()("MasterKeyNotKept", {
  detail: Schema.String,
}, { httpApiStatus: 503 }) {
  override get message(): string {
    return `The master key cannot be kept: ${this.detail}`
  }
}

export interface MasterKeyIds {
  /** The key that seals. */
  readonly sealing: string
  /** Keys of before, which still open. */
  readonly older: ReadonlyArray<string>
  readonly source: "file" | "setting"
}

/** The keys behind the {@link Vault}. */
export class MasterKeys extends Context.Service<MasterKeys, {
  readonly ids: Effect.Effect<MasterKeyIds>
  /** Makes a key that seals from now on; it is on the disk, beside those of before, when it first seals. */
  readonly renew: Effect.Effect<MasterKeyIds, MasterKeyGiven | MasterKeyNotKept>
  /** Forgets keys of before. Whatever is still sealed under one of them is lost. */
  readonly retire: (ids: ReadonlyArray<string>) => Effect.Effect<void, MasterKeyNotKept>
}>()("nightjar/MasterKeys") {}

/** A place outside of PostgreSQL that keeps sealed texts. */
export interface SealedFile {
  readonly name: string
  /** Ids of the keys that its texts are sealed under. */
  readonly keys: Effect.Effect<ReadonlySet<string>>
  /** Seals all of them anew, under the key that seals now; on the disk when it returns. What does not open stays as it is. */
  readonly reseal: Effect.Effect<void>
}
