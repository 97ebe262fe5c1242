/** Statement 2: two nodes never control a camera at once, and an epoch that was superseded never controls again. */
import { type Checker, deaf } from "../facts.ts"

export const control = (): Checker => {
  const wrong: Array<string> = []
  let forgot = false
  const highest = new Map<number, { readonly node: number; readonly epoch: number }>()
  return {
    ...deaf,
    controllers: (at, home, who) => {
      if (who.length > 1) {
        wrong.push(
          `control: at ${at} node ${home} is controlled by ${
            who.map((one) => `${one.node}@${one.epoch}`).join(" and ")
          }`,
        )
      }
      for (const one of who) {
        const known = highest.get(home)
        if (!forgot && known !== undefined && known.epoch > one.epoch) {
          wrong.push(
            `control: at ${at} node ${one.node} controls ${home} with epoch ${one.epoch} after ${known.node} with ${known.epoch}`,
          )
        } else highest.set(home, one)
      }
    },
    // A voter's memory went with its disks; that only one controls holds nevertheless.
    wiped: () => void (forgot = true),
    verdict: () => wrong,
  }
}
