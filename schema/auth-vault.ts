/** Words of the master key: which one seals, and how far a renewal has come. */
import { Schema } from "effect"

/** The master key of this node. A key is named by the first digits of a hash of it, as every sealed text names its own. */
export const MasterKeyState = Schema.Struct({
  /** `resealing`: secrets of before are being sealed anew; the keys of before still open them. */
  state: Schema.Literals(["settled", "resealing"]),
  keyId: Schema.String,
  /** `setting`: the operator gives it, and changes it there. */
  source: Schema.Literals(["file", "setting"]),
  olderKeyIds: Schema.Array(Schema.String),
  /** Secrets still sealed under a key of before; `null` while nobody counted. */
  left: Schema.NullOr(Schema.Int),
  /** What stands in the way, for a person; `null` if nothing does. */
  error: Schema.NullOr(Schema.String),
}).annotate({ identifier: "MasterKeyState" })
export type MasterKeyState = typeof MasterKeyState.Type

/** A rotation is under way: its secrets come first. */
export class MasterKeyRotating extends Schema.TaggedError<MasterKeyRotating>()("MasterKeyRotating", {}, {
  httpApiStatus: 409,
}) {
  override get message(): string {
    return "The master key is being rotated; wait until every secret is sealed anew"
  }
}
