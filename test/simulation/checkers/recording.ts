/**
 * Statement 1: who can reach a camera and its own disk records it; and a home node that is gone is served by a guardian soon.
 *
 * A takeover is owed after `patience` in which nothing changed: the home node was down or stood still, one guardian at least was
 * up with its database and the home node's configuration. A home node serves again by itself, so nothing is owed then.
 */
import { type Checker, deaf, type Plan } from "../facts.ts"
import { addSpan, missing, type Span } from "../spans.ts"

/** From being able to the first key frame: connecting, and a group of pictures. */
const slack = 35
/** Detection, three ranks, a takeover that failed twice, and their patience with each other. */
const patience = 30_000

export const recording = (plan: Plan): Checker => {
  const wrong: Array<string> = []
  const able = new Map<string, number>()
  const due: Array<{ readonly node: number; readonly camera: number; readonly span: Span }> = []
  const held = new Map<string, ReadonlyArray<Span>>()
  const up = Array.from({ length: plan.nodes }, () => "up")
  const database = Array.from({ length: plan.nodes }, () => true)
  const serving = new Set<string>()
  const ready = new Set<string>()
  let changed = 0
  const judge = (at: number): void => {
    if (at - changed < patience) return
    for (let home = 0; home < plan.nodes; home++) {
      if (up[home] === "up" || plan.automatic[home] !== true) continue
      const fit = plan.guardians[home]!.filter((node) =>
        up[node] === "up" && database[node] && ready.has(`${node} ${home}`)
      )
      const serves = plan.guardians[home]!.some((node) => up[node] === "up" && serving.has(`${node} ${home}`))
      if (fit.length > 0 && !serves) {
        wrong.push(
          `recording: node ${home} is ${up[home]} since before ${changed}, and at ${at} none of ${
            fit.join(", ")
          } serves it`,
        )
      }
    }
  }
  const change = (at: number): void => {
    judge(at)
    changed = at
  }
  return {
    ...deaf,
    process: (at, node, state) => {
      change(at)
      up[node] = state
    },
    database: (at, node, state) => {
      change(at)
      database[node] = state
    },
    ready: (at, node, home, state) => {
      if (state === ready.has(`${node} ${home}`)) return
      change(at)
      if (state) ready.add(`${node} ${home}`)
      else ready.delete(`${node} ${home}`)
    },
    serves: (at, node, home, epoch) => {
      judge(at)
      if (epoch === null) serving.delete(`${node} ${home}`)
      else serving.add(`${node} ${home}`)
    },
    wiped: (_, node) => {
      for (let n = due.length - 1; n >= 0; n--) if (due[n]!.node === node) due.splice(n, 1)
    },
    able: (at, node, camera, state) => {
      const since = able.get(`${node} ${camera}`)
      if (state && since === undefined) able.set(`${node} ${camera}`, at)
      if (!state && since !== undefined) {
        able.delete(`${node} ${camera}`)
        due.push({ node, camera, span: [Math.ceil(since / 100) + slack, Math.floor(at / 100) - slack] })
      }
    },
    recorded: (_, node, camera, __, span) => {
      held.set(`${node} ${camera}`, addSpan(held.get(`${node} ${camera}`) ?? [], span))
    },
    verdict: (rest) => {
      judge(rest.at)
      for (const { camera, node, span } of due) {
        const lacks = missing(held.get(`${node} ${camera}`) ?? [], span)
        if (lacks.length > 0) {
          wrong.push(
            `recording: node ${node} could and did not record ${
              lacks.map((one) => one.join("..")).join(" ")
            } of camera ${camera}`,
          )
        }
      }
      return wrong
    },
  }
}
