/**
 * Failover, simulated: some fixed seeds, some that nobody ran before, and those that once found something. A failing seed replays
 * with `npm run simulate -- --seeds 1 --seed S --trace`.
 */
import { assert, describe, it } from "@effect/vitest"
import { randomInt } from "node:crypto"
import { simulate } from "./simulate.ts"

/** Seeds that found something, and what. */
const found: ReadonlyArray<readonly [seed: number, bug: string]> = [
  [
    385,
    "clocks that differ by less than two seconds counted as equal: seconds at the edge of a gap were deleted unsent",
  ],
  [
    9447,
    "a home node on new hardware believed the first voter's old number for good, and refused the guardian that knew better",
  ],
  [
    5874,
    "two milliseconds at the edge of a gap whose rest had come home were neither recorded nor in a gap",
  ],
  [
    2595,
    "what a guardian's footage left of a gap was judged without the rest of it: what its cause names had held there",
  ],
  [
    3794,
    "a guardian whose process had just come back was expected to take its turn before one that had counted all along",
  ],
  [
    9860,
    "a guardian that had heard of a takeover which died was expected to take its turn before one that had not",
  ],
  [
    701138,
    "footage that came home covered what the home node had not written yet and then lost: it stood in a gap as well",
  ],
  [
    701078,
    "a simulated guardian that died before it let control go never took back what it had promised itself",
  ],
  [
    5005423,
    "a guardian that stood still believed an answer of before, and deleted what its home node had lost with its disks since",
  ],
]

const run = (seed: number): void => {
  const { wrong } = simulate(seed, 10, false)
  assert.deepStrictEqual(wrong, [], `seed ${seed}`)
}

describe("ten virtual minutes of failover", () => {
  it("go right with the fixed seeds", () => {
    for (let seed = 1; seed <= 24; seed++) run(seed)
  })

  for (const [seed, bug] of found) it(`go right with seed ${seed} again: ${bug}`, () => run(seed))

  it("go right with seeds of today", () => {
    const first = randomInt(1_000_000, 2_000_000_000)
    for (let seed = first; seed < first + 8; seed++) run(seed)
  })

  it("are the same again from the same seed", () => {
    const [once, again] = [simulate(7, 10, true), simulate(7, 10, true)]
    assert.isAbove(once.trace.length, 100)
    assert.deepStrictEqual(once.trace, again.trace)
  })
})
