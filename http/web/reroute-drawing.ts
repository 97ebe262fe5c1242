/**
 * The picture of nodes and who guards whom, as boxes and lines: where each stands, for a given width.
 *
 * Invariants
 * 1. This node stands alone at the left (above, where it is narrow); each other node once, in the order of the list.
 * 2. Everything lies within the width, in CSS pixels: letters are never scaled.
 */
import type { NodeId } from "#schema/common.ts"
import type { FailoverStatus, Guardian, ProtectionView } from "#schema/federation-failover.ts"
import type { FederationNode } from "#schema/federation.ts"
import { protectionWords, serves } from "./reroute-words.ts"

export interface Relation {
  /** Of the one whose node this is not. */
  readonly nodeId: NodeId
  /** `out`: this node guards that one. */
  readonly direction: "out" | "in"
  readonly tone: "ok" | "warn" | "fail" | "idle"
  /** Cameras are served across it now. */
  readonly active: boolean
  /** For those who see the line. */
  readonly label: string
  /** A whole sentence. */
  readonly sentence: string
}

export interface Box {
  readonly node: Pick<FederationNode, "nodeId" | "name" | "state" | "self">
  readonly x: number
  readonly y: number
  readonly width: number
  readonly height: number
}

interface Line {
  readonly relation: Relation
  /** From the guardian to the node that it guards. */
  readonly points: ReadonlyArray<readonly [x: number, y: number]>
  readonly text: { readonly x: number; readonly y: number; readonly anchor: "start" | "middle" }
}

export interface Drawing {
  readonly width: number
  readonly height: number
  readonly boxes: ReadonlyArray<Box>
  readonly lines: ReadonlyArray<Line>
}

/** What this node knows of guarding: those it guards, and those that guard it. */
export const relationsOf = (
  self: string,
  protections: ReadonlyArray<ProtectionView>,
  guardians: ReadonlyArray<Guardian>,
  servedBy: FailoverStatus["servedBy"],
): ReadonlyArray<Relation> => [
  ...protections.map((one): Relation => {
    const [tone, words] = protectionWords[one.state]
    return {
      nodeId: one.nodeId,
      direction: "out",
      tone,
      active: serves(one.state),
      label: `${words}, epoch ${one.epoch}`,
      sentence: `${self} guards ${one.name}: ${words}, epoch ${one.epoch}.`,
    }
  }),
  ...guardians.map(({ granted, name, nodeId }): Relation => {
    const serving = servedBy?.nodeId === nodeId ? servedBy : null
    const words = serving !== null ?
      `serves this node, epoch ${serving.epoch}` :
      granted ?
      "allowed to guard" :
      "asks to guard"
    return {
      nodeId,
      direction: "in",
      tone: serving !== null ? "fail" : granted ? "ok" : "warn",
      active: serving !== null,
      label: words,
      sentence: `${name}: ${words}${serving === null ? ` ${self}` : ""}.`,
    }
  }),
]

const boxHeight = 58
/** Between two lines of one pair of nodes, and for the words above a line. */
const lane = 26
const gap = 18
const narrow = 620

const stacked = (
  width: number,
  self: Box["node"],
  others: ReadonlyArray<Box["node"]>,
  of: (nodeId: NodeId) => ReadonlyArray<Relation>,
): Drawing => {
  const indent = 54
  const boxes: Array<Box> = [{ node: self, x: 1, y: 1, width: width - 2, height: boxHeight }]
  const lines: Array<Line> = []
  let y = boxHeight + gap
  for (const node of others) {
    const relations = of(node.nodeId)
    const top = y + relations.length * lane
    relations.forEach((relation, index) => {
      const spine = relation.direction === "out" ? 14 : 32
      const arrival = top + boxHeight / 2 + (relation.direction === "out" ? -10 : 10)
      const path = [[spine, boxHeight + 1], [spine, arrival], [indent, arrival]] as const
      lines.push({
        relation,
        points: relation.direction === "out" ? path : path.toReversed(),
        text: { x: indent, y: y + index * lane + 17, anchor: "start" },
      })
    })
    boxes.push({ node, x: indent, y: top, width: width - indent - 1, height: boxHeight })
    y = top + boxHeight + gap
  }
  return { width, height: y - gap + 2, boxes, lines }
}

const beside = (
  width: number,
  self: Box["node"],
  others: ReadonlyArray<Box["node"]>,
  of: (nodeId: NodeId) => ReadonlyArray<Relation>,
): Drawing => {
  const boxWidth = Math.min(240, Math.floor(width * 0.3))
  const row = boxHeight + gap + lane
  const height = Math.max(1, others.length) * row - lane + 2
  const middle = (height - boxHeight) / 2
  const boxes: Array<Box> = [{ node: self, x: 1, y: middle, width: boxWidth, height: boxHeight }]
  const lines: Array<Line> = []
  const right = width - boxWidth - 1
  const bend = boxWidth + (right - boxWidth) * 0.22
  others.forEach((node, place) => {
    const y = 1 + place * row
    boxes.push({ node, x: right, y, width: boxWidth, height: boxHeight })
    const relations = of(node.nodeId)
    relations.forEach((relation, index) => {
      const shift = relations.length === 1 ? 6 : index * lane - 5
      const end = y + boxHeight / 2 + shift
      const start = middle + boxHeight / 2 + shift
      const path = [[boxWidth + 1, start], [bend, end], [right, end]] as const
      lines.push({
        relation,
        points: relation.direction === "out" ? path : path.toReversed(),
        text: { x: (bend + right) / 2, y: end - 7, anchor: "middle" },
      })
    })
  })
  return { width, height, boxes, lines }
}

export const drawingOf = (
  width: number,
  nodes: ReadonlyArray<FederationNode>,
  relations: ReadonlyArray<Relation>,
  names: ReadonlyMap<NodeId, string>,
): Drawing | null => {
  const self = nodes.find((node) => node.self)
  if (self === undefined) return null
  const known = nodes.filter((node) => !node.self && node.relation !== "discovered")
  // One may guard a node that is in no list any more.
  const strange = [...new Set(relations.map(({ nodeId }) => nodeId))]
    .filter((nodeId) => !known.some((node) => node.nodeId === nodeId))
    .map((nodeId): Box["node"] => ({ nodeId, name: names.get(nodeId) ?? nodeId, state: "unknown", self: false }))
  const of = (nodeId: NodeId) => relations.filter((one) => one.nodeId === nodeId)
  return (width < narrow ? stacked : beside)(width, self, [...known, ...strange], of)
}
