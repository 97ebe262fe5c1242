/**
 * What really happens in a simulated world, told to the checkers as it happens. Nodes are numbers; times are true milliseconds,
 * which no node knows; pictures of a camera are numbered from 0, one every 100 ms.
 */
import type { GapCause } from "#schema/record.ts"
import type { Span } from "./spans.ts"

export interface Plan {
  readonly nodes: number
  /** Guardians of each node, by rank. */
  readonly guardians: ReadonlyArray<ReadonlyArray<number>>
  /** Home node of each camera. */
  readonly cameras: ReadonlyArray<number>
  /** Homes whose guardians record nothing. */
  readonly liveOnly: ReadonlyArray<boolean>
  readonly automatic: ReadonlyArray<boolean>
  /** A camera grants fewer sessions than there are nodes. */
  readonly sessionsShort: boolean
  /** Faults end and the world is left alone here. */
  readonly quietMs: number
  readonly endMs: number
}

/** A missing span in milliseconds, as a ledger or a home node tells of it. */
export interface ToldGap {
  readonly start: number
  readonly end: number
  readonly cause: GapCause
}

/** An answer of a voter, as it leaves. */
export interface ToldVote {
  readonly holder: number
  readonly bootId: string
  readonly round: number
  readonly epoch: number
  /** Of two voters. */
  readonly endless: boolean
  /** An administrator stated that the other is off. */
  readonly override: boolean
  readonly granted: boolean
}

export interface Facts {
  /** A process runs, stands still, or is not there. */
  readonly process: (at: number, node: number, state: "up" | "frozen" | "down") => void
  /** The node can record the camera: wants to, reaches it, gets a session, has room. */
  readonly able: (at: number, node: number, camera: number, able: boolean) => void
  /** The network between the node and the camera, and the camera. */
  readonly way: (at: number, node: number, camera: number, open: boolean) => void
  /** There is room on the node's disk. */
  readonly room: (at: number, node: number, room: boolean) => void
  /** The node has to record the camera: it is at home there, or the slot is served there. */
  readonly expected: (at: number, node: number, camera: number, expected: boolean) => void
  /** A fault of the network began or ended, or another that makes a takeover late or doubled; or a person acted. */
  readonly disturbed: (at: number, by: 1 | -1) => void
  readonly database: (at: number, node: number, up: boolean) => void
  /** The guardian decided to serve the home's slot, and tells so whoever asks. */
  readonly takes: (at: number, node: number, home: number) => void
  /** The guardian serves the home's slot, on its disk. */
  readonly serves: (at: number, node: number, home: number, epoch: number | null) => void
  /** The guardian holds the configuration of the home node and may use it. */
  readonly ready: (at: number, node: number, home: number, ready: boolean) => void
  /** Pictures are on the node's disk. */
  readonly recorded: (at: number, node: number, camera: number, epoch: number, span: Span) => void
  /** Pictures of `node` came home and are on the home node's disk. */
  readonly received: (at: number, node: number, camera: number, epoch: number, span: Span) => void
  /** `node` got the receipt. */
  readonly receipt: (at: number, node: number, camera: number, epoch: number, span: Span) => void
  readonly deleted: (at: number, node: number, camera: number, epoch: number, span: Span) => void
  /** The node's disks were replaced. */
  readonly wiped: (at: number, node: number) => void
  /** These nodes would send a command to a camera of this home node at this moment, with these epochs. */
  readonly controllers: (
    at: number,
    home: number,
    who: ReadonlyArray<{ readonly node: number; readonly epoch: number }>,
  ) => void
  /** The node asks every voter for control of the home's cameras. */
  readonly leaseAsked: (
    at: number,
    node: number,
    home: number,
    question: { readonly epoch: number; readonly round: number },
  ) => void
  readonly leaseVoted: (at: number, voter: number, home: number, vote: ToldVote) => void
  /** The voter hears that the holder lets go. */
  readonly leaseFreed: (
    at: number,
    voter: number,
    home: number,
    release: Pick<ToldVote, "bootId" | "holder" | "round">,
  ) => void
  readonly leaseObtained: (at: number, node: number, home: number, epoch: number) => void
  /** It ran out, or was refused; not let go. */
  readonly leaseLost: (at: number, node: number, home: number, epoch: number) => void
}

export interface Checker extends Facts {
  /** What was wrong, a line each; `rest` is what the nodes say at the end. */
  readonly verdict: (rest: Rest) => ReadonlyArray<string>
}

/** The world as it came to rest. */
export interface Rest {
  readonly at: number
  readonly protections: ReadonlyArray<
    { readonly node: number; readonly home: number; readonly tag: string; readonly owed: number }
  >
  readonly homes: ReadonlyArray<{ readonly node: number; readonly rerouted: boolean; readonly epoch: number }>
  readonly ledgers: ReadonlyArray<
    { readonly node: number; readonly camera: number; readonly gaps: ReadonlyArray<ToldGap> }
  >
  readonly coverage: ReadonlyArray<{ readonly camera: number; readonly gaps: ReadonlyArray<ToldGap> }>
}

const nothing = (): void => undefined
/** Facts that a checker has no use for. */
export const deaf: Facts = {
  process: nothing,
  able: nothing,
  way: nothing,
  room: nothing,
  expected: nothing,
  disturbed: nothing,
  database: nothing,
  takes: nothing,
  serves: nothing,
  ready: nothing,
  recorded: nothing,
  received: nothing,
  receipt: nothing,
  deleted: nothing,
  wiped: nothing,
  controllers: nothing,
  leaseAsked: nothing,
  leaseVoted: nothing,
  leaseFreed: nothing,
  leaseObtained: nothing,
  leaseLost: nothing,
}

export const toAll = (checkers: ReadonlyArray<Facts>): Facts => ({
  process: (...fact) => checkers.forEach((one) => one.process(...fact)),
  able: (...fact) => checkers.forEach((one) => one.able(...fact)),
  way: (...fact) => checkers.forEach((one) => one.way(...fact)),
  room: (...fact) => checkers.forEach((one) => one.room(...fact)),
  expected: (...fact) => checkers.forEach((one) => one.expected(...fact)),
  disturbed: (...fact) => checkers.forEach((one) => one.disturbed(...fact)),
  database: (...fact) => checkers.forEach((one) => one.database(...fact)),
  takes: (...fact) => checkers.forEach((one) => one.takes(...fact)),
  serves: (...fact) => checkers.forEach((one) => one.serves(...fact)),
  ready: (...fact) => checkers.forEach((one) => one.ready(...fact)),
  recorded: (...fact) => checkers.forEach((one) => one.recorded(...fact)),
  received: (...fact) => checkers.forEach((one) => one.received(...fact)),
  receipt: (...fact) => checkers.forEach((one) => one.receipt(...fact)),
  deleted: (...fact) => checkers.forEach((one) => one.deleted(...fact)),
  wiped: (...fact) => checkers.forEach((one) => one.wiped(...fact)),
  controllers: (...fact) => checkers.forEach((one) => one.controllers(...fact)),
  leaseAsked: (...fact) => checkers.forEach((one) => one.leaseAsked(...fact)),
  leaseVoted: (...fact) => checkers.forEach((one) => one.leaseVoted(...fact)),
  leaseFreed: (...fact) => checkers.forEach((one) => one.leaseFreed(...fact)),
  leaseObtained: (...fact) => checkers.forEach((one) => one.leaseObtained(...fact)),
  leaseLost: (...fact) => checkers.forEach((one) => one.leaseLost(...fact)),
})
