/**
 * How the list of voters about a home node follows who should vote: a pure function of the home node, which alone changes the list.
 *
 * Invariants
 * 1. It changes by one node at a time, and again only once a majority of the new list has granted the lease under it (`confirmed`), so two
 *    lists that may be in use share a voter of each majority.
 * 2. A change that was never confirmed may be taken back: the list before it is the one in force.
 * 3. A list whose forerunner is not known any more changes when it was confirmed itself.
 */
import type { NodeId } from "#schema/common.ts"

type Voters = ReadonlyArray<NodeId>

export const sameVoters = (a: Voters, b: Voters): boolean => a.length === b.length && a.every((one) => b.includes(one))

/**
 * The next list, null where it stays.
 * @param confirmed The last list that a majority of itself granted the lease under; empty: not known any more.
 */
export const nextVoters = (now: Voters, confirmed: Voters, wanted: Voters): Voters | null => {
  if (sameVoters(now, wanted) || confirmed.length === 0) return null
  if (!sameVoters(now, confirmed)) {
    const added = now.find((one) => !confirmed.includes(one))
    const removed = confirmed.find((one) => !now.includes(one))
    const unwanted = (added !== undefined && !wanted.includes(added)) ||
      (removed !== undefined && wanted.includes(removed))
    return unwanted ? confirmed : null
  }
  const gone = now.find((one) => !wanted.includes(one))
  if (gone !== undefined) return now.filter((one) => one !== gone)
  const [come] = wanted.filter((one) => !now.includes(one)).toSorted()
  return come === undefined ? null : [...now, come]
}
