/** What a simulated node is made of: its disk, its process, what others call, and what its parts share. */
import type { Homecoming, HomecomingEvent } from "#cluster/homecoming.ts"
import type { LeaseHolder, Promised, unvote, vote, Voter } from "#cluster/lease.ts"
import type { Protection, ProtectionEvent } from "#cluster/protection-state.ts"
import type { JobState } from "#cluster/recordback.ts"
import type { Roll } from "#schema/federation-control.ts"
import type { RerouteStatus } from "#schema/federation-protection.ts"
import type { ProtectionClass } from "#schema/federation.ts"
import type { Captures } from "./cameras.ts"
import type { Machine, World } from "./world.ts"

export interface Disk {
  homecoming: Homecoming
  readonly protections: Map<number, Protection>
  readonly promises: Map<number, Promised>
  /** Slots of others that this node owns, in its database. */
  readonly owned: Map<number, { readonly epoch: number; readonly rerouteId: string }>
  /** Record-back jobs, by reroute. */
  readonly jobs: Map<string, JobState>
}

export interface Node {
  readonly machine: Machine
  readonly disk: Disk
  readonly captures: Captures
  readonly start: () => void
  readonly kill: () => void
  /** New hardware under the old identity: nothing is on its disks. */
  readonly replace: () => void
  /** A person's action, or news of the home node, at a guardian. */
  readonly tell: (home: number, event: ProtectionEvent) => void
  readonly mayControl: (home: number) => number | null
  /** What the others call. */
  readonly rpc: {
    readonly heartbeat: (asker: number) => Extract<ProtectionEvent, { readonly type: "heartbeat" }>
    readonly status: (home: number, asker: number) => RerouteStatus | null
    readonly lease: (home: number, request: Parameters<typeof vote>[1]) => ReturnType<typeof vote>["answer"] | null
    readonly release: (home: number, release: Parameters<typeof unvote>[1]) => void
    readonly giveBack: (
      event: Extract<HomecomingEvent, { readonly type: "giveBack" }>,
      reply: (answer: { readonly agreed: boolean; readonly epoch: number }) => void,
    ) => void
    readonly bundle: (asker: number) => string | null
  }
  /** Changed by people: a new version of the configuration, or another word on who may guard. */
  digest: number
  readonly granted: Set<number>
}

export interface Relation {
  readonly home: number
  readonly rank: number
  readonly class: ProtectionClass
  readonly automatic: boolean
}

export interface NodeOptions {
  readonly relations: ReadonlyArray<Relation>
  readonly guardians: ReadonlyArray<number>
  /** Who votes about whom; index is the home node. */
  readonly rolls: ReadonlyArray<Roll>
  readonly nodes: ReadonlyArray<Node>
}

/** The process that is there now, and what it knows. */
export interface Process {
  readonly bootId: string
  readonly protections: Map<number, Protection>
  readonly holders: Map<number, LeaseHolder>
  readonly voters: Map<number, Voter>
  home: Homecoming
}

/** What the parts of a node share. */
export interface Inside {
  readonly world: World
  readonly machine: Machine
  readonly captures: Captures
  readonly options: NodeOptions
  readonly process: () => Process | null
  readonly disk: () => Disk
  readonly now: () => number
  /** False: the process died here. */
  readonly survives: () => boolean
  readonly wantCaptures: () => void
  readonly withHome: (event: HomecomingEvent) => void
  readonly tell: (home: number, event: ProtectionEvent) => void
}
