/** When faults are over everything comes to rest: home nodes serve, control is theirs, footage is home, guards stand ready. */
import { type Checker, deaf, type Plan } from "../facts.ts"

export const rest = (plan: Plan): Checker => {
  const wrong: Array<string> = []
  const last = new Map<number, ReadonlyArray<number>>()
  return {
    ...deaf,
    controllers: (_, home, who) => void last.set(home, who.map((one) => one.node)),
    verdict: ({ homes, protections }) => {
      for (const one of protections) {
        if (one.tag !== "protected" || one.owed > 0) {
          wrong.push(`rest: guardian ${one.node} of ${one.home} is ${one.tag} with ${one.owed} reroutes owed`)
        }
      }
      for (const one of homes) if (one.rerouted) wrong.push(`rest: node ${one.node} still counts as rerouted`)
      for (let home = 0; home < plan.nodes; home++) {
        const who = last.get(home) ?? []
        if (who.length !== 1 || who[0] !== home) {
          wrong.push(`rest: node ${home} is controlled by ${who.join(" and ") || "nobody"}`)
        }
      }
      return wrong
    },
  }
}
