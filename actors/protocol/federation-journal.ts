/**
 * Changes of a home node's configuration that were made where its cameras were served in its stead: told by the guardian, merged by the
 * home node, decided by its administrator where both sides changed the same.
 *
 * Invariants
 * 1. Passwords leave a node only sealed for the home node they belong to.
 * 2. A change is merged once, whatever is killed in between, and shown where it was not taken over.
 */
import type { NodeId, PageOf, PageRequest } from "#schema/common.ts"
import type { ControlElsewhere } from "#schema/federation-failover.ts"
import type {
  ConfigurationConflict,
  ConflictId,
  ConflictImpossible,
  ConflictNotFound,
  ConflictSide,
  JournalAnswer,
  JournalEntry,
} from "#schema/federation-journal.ts"
import type { NodeNotFound, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import type { DependencyUnavailable, InvalidCursor } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

export class FailoverJournals extends Context.Service<FailoverJournals, {
  /** A home node takes what waits for it: it has `acknowledged`, and is given what follows, sealed for it. */
  readonly give: (asker: NodeId, acknowledged: ReadonlyArray<string>) => Answer<JournalAnswer, NodeNotFound>
  /** What waits for a home node, oldest first. */
  readonly entries: (homeNodeId: NodeId) => Answer<ReadonlyArray<JournalEntry>>
  /** How many wait, of each home node. */
  readonly waiting: () => Answer<ReadonlyMap<NodeId, number>>
  /** The home node is none any more. */
  readonly forget: (homeNodeId: NodeId) => Answer<void>

  /** Fetches and merges all that a guardian has for this node; returns when it is in force and acknowledged. */
  readonly take: (guardian: NodeId) => Answer<void, NodeNotFound | PeerUnreachable | PeerRefused>
  /** Conflicts that nobody has decided, oldest first. */
  readonly conflicts: (page: PageRequest) => Answer<PageOf<ConfigurationConflict>, InvalidCursor>
  readonly countConflicts: () => Answer<number>
  /** This side is in force from now on. */
  readonly resolve: (
    id: ConflictId,
    side: ConflictSide,
  ) => Answer<ConfigurationConflict, ConflictNotFound | ConflictImpossible | ControlElsewhere>
}>()("nightjar/actors/FailoverJournals") {}
