/** What may not be done while another node serves this one's cameras; a server without failover asks nobody. */
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { Effect, Option } from "effect"

/** Asked before a deletion: what it answers fails where another node serves. */
export const deletionGate = Effect.map(
  Effect.serviceOption(FailoverGate),
  Option.match({ onNone: () => Effect.void, onSome: (gate) => gate.mayDelete() }),
)
