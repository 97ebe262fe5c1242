/**
 * Words of control that nodes say to each other: who may vote about a home node, what is asked of a voter, what it answers.
 *
 * Invariants
 * 1. Lists are bounded: a home node has at most {@link mostVoters} voters.
 */
import { Schema } from "effect"
import { NodeId } from "./common.ts"
import { Turn } from "./federation-protection.ts"

/** The home node, seven guardians, four witnesses; more would make a majority slower and no safer. */
export const mostVoters = 12
export const mostWitnesses = 4

const Turns = Schema.Array(Turn).check(Schema.isMaxLength(64))
const Round = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))
const BootId = Schema.String.check(Schema.isMaxLength(64))

/** Nodes that decide about one home node: itself, its guardians, named witnesses. */
export const Roll = Schema.Struct({
  version: Schema.Int,
  voters: Schema.Array(NodeId).check(Schema.isMinLength(1), Schema.isMaxLength(mostVoters)),
  /** The home node's signature over it, kept for the home node; nodes of earlier versions have none. */
  signed: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(4_096))),
})
export type Roll = typeof Roll.Type

const request = {
  homeNodeId: NodeId,
  holder: NodeId,
  /** Start of the holder's process and number of the round: an older release does not undo a newer grant. */
  bootId: BootId,
  round: Round,
  epoch: Round,
  turns: Turns,
  rollVersion: Schema.Int,
  /** Null: the home node's lease among two voters, which does not run out. */
  termMs: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 60_000 }))),
}
export const LeaseRequest = Schema.Struct(request)
export type LeaseRequest = typeof LeaseRequest.Type

/** As it travels: the home node tells its voters who they are; of others the list is not believed. */
export const ControlRequest = Schema.Struct({ ...request, voters: Roll.fields.voters, signed: Roll.fields.signed })
export type ControlRequest = typeof ControlRequest.Type

export const LeaseAnswer = Schema.Struct({
  from: NodeId,
  bootId: BootId,
  round: Round,
  granted: Schema.Boolean,
  /** Where the epoch was refused: the one that was granted last, and the turns up to it. */
  inForce: Schema.Int,
  turns: Turns,
  /** For a home node that asks by an older list than it gave before: the newest, by which it is asked; it believes its own signature. */
  newestRoll: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(4_096))),
})
export type LeaseAnswer = typeof LeaseAnswer.Type

export const LeaseRelease = Schema.Struct({ homeNodeId: NodeId, holder: NodeId, bootId: BootId, round: Round })
export type LeaseRelease = typeof LeaseRelease.Type
export const LeaseReleased = Schema.Struct({ homeNodeId: NodeId })
