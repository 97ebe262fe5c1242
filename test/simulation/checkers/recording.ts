/**
 * Statement 1: who can reach a camera and its own disk records it; and a home node that is gone is served by a guardian soon.
 *
 * A takeover is owed after `patience` in which nothing changed for this home node: it was down or stood still, one guardian at least
 * was up with its database and the home node's configuration. A home node serves again by itself, so nothing is owed then. Where
 * nothing else was wrong either, it is owed `promptly`, guardians take their turn by rank, and only one of them serves.
 *
 * A guardian counts silence from the last sign of the home node, of another guardian on its way to serve, and of itself after it stood
 * still or was away; the clocks of before say nothing (`cluster/protection.ts`, invariant 4). One guardian may have seen such a sign,
 * one not. So who stands before has its turn its own wait after the last of them, and a rank's wait to let the next ones see it.
 */
import { defaultSettings } from "#schema/federation-protection.ts"
import { type Checker, deaf, type Plan } from "../facts.ts"
import { addSpan, missing, type Span } from "../spans.ts"

/** From being able to the first key frame: connecting, and a group of pictures. */
const slack = 35
/** Detection, three ranks, a takeover that failed twice, and their patience with each other. */
const patience = 30_000
/** Detection, a question to the others, and the work of it. */
const promptly = 8_000
/** Longer for each guardian that stands before and cannot. */
const turn = 5_000
/** As long must things have been in order before. */
const calm = 15_000
/** Until the database of a guardian that decided to serve has it, at most. */
const takingMs = 1_200

export const recording = (plan: Plan): Checker => {
  const wrong: Array<string> = []
  const able = new Map<string, number>()
  const due: Array<{ readonly node: number; readonly camera: number; readonly span: Span }> = []
  const held = new Map<string, ReadonlyArray<Span>>()
  const up = Array.from({ length: plan.nodes }, () => "up")
  const database = Array.from({ length: plan.nodes }, () => true)
  const serving = new Set<string>()
  const ready = new Set<string>()
  const changed = new Map<number, number>()
  const disturbed = { count: 0, atMs: 0 }
  const databaseAt = Array.from({ length: plan.nodes }, () => -Infinity)
  /** When a process last came, or went on; and when it last went, or stood still. */
  const cameAt = Array.from({ length: plan.nodes }, () => -Infinity)
  const leftAt = Array.from({ length: plan.nodes }, () => -Infinity)
  const tookAt = new Map<string, number>()
  const serves = (node: number, home: number): boolean => up[node] === "up" && serving.has(`${node} ${home}`)
  const isFit = (node: number, home: number): boolean =>
    up[node] === "up" && database[node] === true && ready.has(`${node} ${home}`)
  const concerns = (node: number): ReadonlyArray<number> =>
    plan.guardians.flatMap((of, home) => home === node || of.includes(node) ? [home] : [])
  /** Nothing but what happened at the last change of this home node is on anybody's mind. */
  const isCalm = (home: number): boolean => {
    const since = (changed.get(home) ?? 0) - calm
    const recent = plan.guardians[home]!.some((node) => databaseAt[node]! > since)
    return disturbed.count === 0 && disturbed.atMs < since && !recent
  }
  const judgeOne = (at: number, home: number): void => {
    const since = changed.get(home) ?? 0
    const guardians = plan.guardians[home]!
    const fit = guardians.filter((node) => isFit(node, home))
    const who = guardians.filter((node) => serves(node, home))
    const quiet = isCalm(home)
    if (who.length > 1 && quiet && at - since >= patience) {
      wrong.push(`recording: since ${since} nodes ${who.join(" and ")} both serve node ${home}, at ${at}`)
    }
    if (up[home] === "up" || plan.automatic[home] !== true) return
    const limit = quiet && fit.length > 0 ? promptly + guardians.indexOf(fit[0]!) * turn : patience
    if (at - since >= limit && fit.length > 0 && who.length === 0) {
      wrong.push(
        `recording: node ${home} is ${up[home]} since before ${since}, and at ${at} none of ${
          fit.join(", ")
        } serves it`,
      )
    }
  }
  const judge = (at: number): void => {
    for (let home = 0; home < plan.nodes; home++) judgeOne(at, home)
  }
  const change = (at: number, node: number): void => {
    for (const home of concerns(node)) {
      judgeOne(at, home)
      changed.set(home, at)
    }
  }
  /** From when on `node` is late, if nobody serves. */
  const turnEnds = (node: number, home: number): number => {
    const guardians = plan.guardians[home]!
    const wasOnItsWay = (one: number): boolean => (tookAt.get(`${one} ${home}`) ?? -Infinity) >= leftAt[home]!
    const others = guardians.filter((one) => one !== node && wasOnItsWay(one)).map((one) => leftAt[one]!)
    const sign = Math.max(cameAt[home]!, cameAt[node]!, ...others)
    const { deadMs, rankWaitMs } = defaultSettings
    return sign + deadMs + (guardians.indexOf(node) + 1) * rankWaitMs + takingMs
  }
  /** Whose turn was it? */
  const judgeTurn = (at: number, node: number, home: number): void => {
    const before = plan.guardians[home]!.slice(0, plan.guardians[home]!.indexOf(node))
    const better = before.find((one) => isFit(one, home) && !serving.has(`${one} ${home}`) && at >= turnEnds(one, home))
    if (better === undefined || up[home] === "up" || !isCalm(home)) return
    wrong.push(`recording: at ${at} node ${node} takes node ${home}, though ${better} stands before it and can`)
  }
  return {
    ...deaf,
    process: (at, node, state) => {
      change(at, node)
      up[node] = state
      if (state === "up") cameAt[node] = at
      else leftAt[node] = at
    },
    database: (at, node, state) => {
      change(at, node)
      databaseAt[node] = at
      database[node] = state
    },
    ready: (at, node, home, state) => {
      if (state === ready.has(`${node} ${home}`)) return
      change(at, node)
      if (state) ready.add(`${node} ${home}`)
      else ready.delete(`${node} ${home}`)
    },
    takes: (at, node, home) => void tookAt.set(`${node} ${home}`, at),
    serves: (at, node, home, epoch) => {
      judgeOne(at, home)
      if (epoch !== null && !serving.has(`${node} ${home}`)) judgeTurn(at, node, home)
      if (epoch === null) serving.delete(`${node} ${home}`)
      else serving.add(`${node} ${home}`)
    },
    disturbed: (at, by) => {
      judge(at)
      disturbed.count += by
      disturbed.atMs = at
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
