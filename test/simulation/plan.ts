/** The shape of a run, from its seed: nodes, who guards whom, who votes, cameras. */
import type { Roll } from "#schema/federation-control.ts"
import type { ProtectionClass } from "#schema/federation.ts"
import type { Plan } from "./facts.ts"
import type { Relation } from "./node-words.ts"
import type { Chance } from "./random.ts"
import { nodeId } from "./world.ts"

export interface Shape {
  readonly plan: Plan
  readonly rolls: ReadonlyArray<Roll>
  /** Of each home node. */
  readonly classes: ReadonlyArray<ProtectionClass>
  /** Sessions that a camera grants. */
  readonly sessionLimit: number
}

/** Time for everything to come to rest after the last fault: stability, failback, footage. */
const quiet = 180_000

export const planOf = (chance: Chance, minutes: number): Shape => {
  const nodes = chance.int(2, 5)
  const homes = Array.from({ length: nodes }, (_, home) => home)
  const guardians = homes.map((home) => {
    const others = homes.filter((one) => one !== home)
    const count = chance.int(home === 0 ? 1 : 0, Math.min(3, others.length))
    return others.map((one) => [chance.unit(), one] as const).toSorted((a, b) => a[0] - b[0]).slice(0, count).map((
      [, one],
    ) => one)
  })
  const rolls = homes.map((home): Roll => {
    const voters = [home, ...guardians[home]!]
    // Witnesses only vote.
    const witnesses = homes.filter((one) => !voters.includes(one) && guardians[home]!.length > 0 && chance.chance(0.5))
    return { version: 1, voters: [...voters, ...witnesses].map(nodeId) }
  })
  const classes = homes.map(() => chance.pick(["warm", "warm", "shadow", "liveOnly"] as const))
  const endMs = minutes * 60_000
  const cameras = homes.flatMap((home) => Array.from({ length: chance.int(1, 2) }, () => home))
  const automatic = homes.map(() => chance.chance(0.9))
  const sessionLimit = chance.chance(0.15) ? 1 : nodes
  // A guardian's ring would take the only session from the home node: told at registration, and not done.
  const possible = sessionLimit < nodes ? classes.map((one) => one === "shadow" ? "warm" as const : one) : classes
  return {
    plan: {
      nodes,
      guardians,
      cameras,
      liveOnly: classes.map((one) => one === "liveOnly"),
      automatic,
      sessionsShort: sessionLimit < nodes,
      quietMs: endMs - quiet,
      endMs,
    },
    rolls,
    classes: possible,
    sessionLimit,
  }
}

/** What `node` guards. */
export const nodeClasses = (
  plan: Plan,
  classes: ReadonlyArray<ProtectionClass>,
  node: number,
): ReadonlyArray<Relation> =>
  plan.guardians.flatMap((of, home) =>
    of.includes(node) ? [{ home, rank: of.indexOf(node), class: classes[home]!, automatic: plan.automatic[home]! }] : []
  )
