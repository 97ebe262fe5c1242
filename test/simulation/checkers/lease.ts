/**
 * Statement 2 from below: what voters promise and what holders have in hand, judged by a model of its own.
 *
 * A voter promises control of a home node to one node at a time: until a term after it was asked last, or until that one lets go with
 * nothing newer asked. It grants no earlier epoch than before, and refuses nobody without one of these reasons. A holder controls with
 * grants of more than half of the voters to one question, of its epoch, asked less than a term ago; where two vote, asked since it last
 * started or stood still. With everybody there and nothing in the way, nobody loses what he holds.
 */
import { defaultLease } from "#cluster/lease.ts"
import { type Checker, deaf } from "../facts.ts"

/** A term in true time by the fastest and by the slowest clock there is; the longer ones of voters, who keep a promise longer. */
const { leaseMs } = defaultLease
const shortest = Math.floor(leaseMs / 1.001)
const longest = Math.ceil(leaseMs / 0.999) + 1
const keptAtLeast = leaseMs / 0.9991 - 1
const keptAtMost = Math.ceil((leaseMs + 11) / 0.999) + 2
/** So long must everybody have been there, and every way open, before a loss needs a reason. */
const calm = 12_000
const roundsKept = 16

interface Promise {
  holder: number
  bootId: string
  round: number
  at: number
  /** Until it is let go, however long that is. */
  endless: boolean
  free: boolean
}
interface Round {
  readonly at: number
  readonly epoch: number
  readonly granted: Set<number>
}

/** @param voters Of each home node. */
export const lease = (voters: ReadonlyArray<ReadonlyArray<number>>): Checker => {
  const wrong: Array<string> = []
  const promises = new Map<string, Promise>()
  const epochs = new Map<string, number>()
  const rounds = new Map<string, Map<number, Round>>()
  /** When what has a majority was asked, by holder, home node and epoch. */
  const backed = new Map<string, Map<number, number>>()
  const startedAt = new Map<number, number>()
  const stoodAt = new Map<number, number>()
  const homeAskedAt = new Map<string, number>()
  const disturbed = { count: 0, at: 0 }
  const key = (node: number, home: number): string => `${node} ${home}`
  const forgetRounds = (node: number): void => {
    for (const home of voters.keys()) {
      rounds.delete(key(node, home))
      backed.delete(key(node, home))
    }
  }
  const isOpen = (promise: Promise, at: number, term: number): boolean =>
    !promise.free && (promise.endless || at - promise.at < term)
  return {
    ...deaf,
    disturbed: (at, by) => {
      disturbed.count += by
      disturbed.at = at
    },
    process: (at, node, state) => {
      disturbed.at = at
      const stood = stoodAt.get(node)
      stoodAt.delete(node)
      if (state === "frozen") stoodAt.set(node, at)
      if (state === "down" || (state === "up" && stood !== undefined && at - stood >= longest)) forgetRounds(node)
      if (state === "down") startedAt.delete(node)
      if (state === "down" || startedAt.has(node)) return
      startedAt.set(node, at)
      for (const home of voters.keys()) {
        homeAskedAt.set(key(node, home), at)
        const promise = promises.get(key(node, home))
        // Which question it answered last went with the process; the term is counted again.
        if (promise !== undefined) Object.assign(promise, { bootId: "", round: 0, at })
      }
    },
    wiped: (_, node) => {
      for (const home of voters.keys()) {
        promises.delete(key(node, home))
        epochs.delete(key(node, home))
      }
    },
    leaseAsked: (at, node, home, { epoch, round }) => {
      const of = rounds.get(key(node, home)) ?? new Map<number, Round>()
      of.set(round, { at, epoch, granted: new Set() })
      of.delete(round - roundsKept)
      rounds.set(key(node, home), of)
    },
    leaseVoted: (at, voter, home, { bootId, endless, epoch, granted, holder, override, round }) => {
      const own = key(voter, home)
      const who = `lease: at ${at} node ${voter} ${granted ? "grants" : "refuses"} node ${holder} control of ${home}`
      const before = promises.get(own)
      const highest = epochs.get(own) ?? 0
      const silence = at - (homeAskedAt.get(own) ?? 0)
      if (holder === home) homeAskedAt.set(own, at)
      const other = before !== undefined && before.holder !== holder ? before : undefined
      const unmoved = endless && voter === home && holder !== home && !override
      if (!granted) {
        const isNew = at - (startedAt.get(voter) ?? 0) < keptAtMost && before?.free !== true
        const taken = other !== undefined && isOpen(other, at, keptAtMost)
        const reason = epoch < highest || unmoved ||
          (override ? holder !== home && silence < keptAtMost : taken || isNew)
        if (!reason) wrong.push(`${who} with epoch ${epoch} without a reason`)
        return
      }
      if (epoch < highest) wrong.push(`${who} with epoch ${epoch} after ${highest}`)
      if (unmoved) wrong.push(`${who}, itself and one of two`)
      if (override && holder !== home && silence < shortest) {
        wrong.push(`${who}, whose home node asked ${silence} ms ago`)
      }
      if (!override && other !== undefined && isOpen(other, at, keptAtLeast)) {
        wrong.push(`${who}, which it promised to ${other.holder} at ${other.at}`)
      }
      epochs.set(own, Math.max(highest, epoch))
      const newest = before?.bootId === bootId ? Math.max(before.round, round) : round
      promises.set(own, { holder, bootId, round: newest, at, endless, free: false })
      const asked = rounds.get(key(holder, home))?.get(round)
      if (asked === undefined) return
      asked.granted.add(voter)
      const all = voters[home]!.length
      if (asked.granted.size * 2 <= all && !(override && all === 2)) return
      const of = backed.get(key(holder, home)) ?? new Map<number, number>()
      of.set(asked.epoch, Math.max(asked.at, of.get(asked.epoch) ?? 0))
      backed.set(key(holder, home), of)
    },
    leaseFreed: (_, voter, home, { bootId, holder, round }) => {
      const promise = promises.get(key(voter, home))
      if (promise?.holder !== holder) return
      if (voter === holder || (promise.bootId === bootId && round >= promise.round)) promise.free = true
    },
    leaseLost: (at, node, home, epoch) => {
      const later = voters[home]!.some((voter) => (epochs.get(key(voter, home)) ?? 0) > epoch)
      if (later || disturbed.count > 0 || at - disturbed.at < calm) return
      wrong.push(`lease: at ${at} node ${node} loses control of ${home}, though everybody was there`)
    },
    controllers: (at, home, who) => {
      const of = voters[home]!
      for (const { epoch, node } of who) {
        if (of.length < 2) continue
        const askedAt = backed.get(key(node, home))?.get(epoch) ?? -Infinity
        const good = of.length === 2 ? askedAt >= 0 : at - askedAt < longest
        if (!good) wrong.push(`lease: at ${at} node ${node} controls ${home} with epoch ${epoch} and no majority`)
      }
    },
    verdict: () => wrong,
  }
}
