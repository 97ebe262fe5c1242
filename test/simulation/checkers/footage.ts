/**
 * Statements 4 and 5: nothing is deleted before its receipt, a receipt is given only for what is on the home node's disk, and
 * every picture that was ever recorded can be watched at every moment; in the end it is at home.
 */
import { type Checker, deaf, type Plan } from "../facts.ts"
import { addSpan, missing, removeSpan, type Span } from "../spans.ts"

export const footage = (plan: Plan): Checker => {
  const wrong: Array<string> = []
  const held = new Map<string, ReadonlyArray<Span>>()
  const ever = new Map<number, ReadonlyArray<Span>>()
  const receipts = new Map<string, ReadonlyArray<Span>>()
  const on = (node: number, camera: number): string => `${node} ${camera}`
  const text = (spans: ReadonlyArray<Span>): string => spans.map((span) => span.join("..")).join(" ")
  const keep = (node: number, camera: number, span: Span): void => {
    held.set(on(node, camera), addSpan(held.get(on(node, camera)) ?? [], span))
  }
  return {
    ...deaf,
    recorded: (_, node, camera, __, span) => {
      keep(node, camera, span)
      ever.set(camera, addSpan(ever.get(camera) ?? [], span))
    },
    received: (_, __, camera, ___, span) => keep(plan.cameras[camera]!, camera, span),
    receipt: (at, node, camera, _, span) => {
      const lacks = missing(held.get(on(plan.cameras[camera]!, camera)) ?? [], span)
      if (lacks.length > 0) {
        wrong.push(
          `footage: at ${at} node ${node} got a receipt for ${text(lacks)} of camera ${camera}, which is not at home`,
        )
      }
      receipts.set(on(node, camera), addSpan(receipts.get(on(node, camera)) ?? [], span))
    },
    deleted: (at, node, camera, _, span) => {
      const early = missing(receipts.get(on(node, camera)) ?? [], span)
      if (early.length > 0) {
        wrong.push(`footage: at ${at} node ${node} deleted ${text(early)} of camera ${camera} without a receipt`)
      }
      held.set(on(node, camera), removeSpan(held.get(on(node, camera)) ?? [], span))
      const lost = missing(held.get(on(plan.cameras[camera]!, camera)) ?? [], span)
      if (lost.length > 0) wrong.push(`footage: at ${at} nobody holds ${text(lost)} of camera ${camera}`)
    },
    // What was on those disks alone is gone, and nobody can be blamed.
    wiped: (_, node) => {
      for (const camera of plan.cameras.keys()) {
        const gone = held.get(on(node, camera)) ?? []
        held.set(on(node, camera), [])
        const elsewhere = [...held].filter(([key]) => key.endsWith(` ${camera}`)).flatMap(([, spans]) => spans)
        const kept = elsewhere.reduce((sum: ReadonlyArray<Span>, one) => addSpan(sum, one), [])
        for (const span of gone) {
          for (const lost of missing(kept, span)) ever.set(camera, removeSpan(ever.get(camera) ?? [], lost))
        }
      }
    },
    verdict: () => {
      for (const [camera, spans] of ever) {
        const home = plan.cameras[camera]!
        const away = spans.flatMap((span) => missing(held.get(on(home, camera)) ?? [], span))
        if (away.length > 0) {
          wrong.push(`footage: in the end ${text(away)} of camera ${camera} is not at home (node ${home})`)
        }
      }
      return wrong
    },
  }
}
