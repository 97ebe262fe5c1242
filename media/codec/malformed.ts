/**
 * The one error of the parsers of this floor: input that is not what its format promises. It never leaves the floor; the
 * driver turns it into a `SourceError` that also tells host, packet and byte.
 *
 * Invariants
 * 1. `detail` quotes no more than a few characters of the input, and never a credential.
 */
import { Data } from "effect"

export class Malformed extends Data.TaggedError("Malformed")<{
  /** The format, for example `H.264 SPS`. */
  readonly what: string
  /** Where in the input, in the unit that `unit` names. */
  readonly at: number
  readonly unit: "bit" | "byte" | "line"
  readonly detail: string
}> {
  override get message(): string {
    return `${this.what}: ${this.detail} at ${this.unit} ${this.at}`
  }
}
