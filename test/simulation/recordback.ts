/**
 * Footage of one reroute on its way home: segment by segment, each deleted here only after the home node's receipt. It goes on
 * until nothing is left, over failures of the way, of the home node and of its disk; a new process begins it again.
 */
import type { Captures } from "./cameras.ts"
import { segment } from "./cameras.ts"
import type { Node } from "./node.ts"
import type { Span } from "./spans.ts"
import { call, later, type Machine, type World } from "./world.ts"

export interface Order {
  readonly rerouteId: string
  readonly home: number
  readonly cameras: ReadonlyArray<number>
  readonly firstEpoch: number
  readonly lastEpoch: number
}

const retryMs = 2_000

export const sendHome = (
  world: World,
  machine: Machine,
  mine: Captures,
  nodes: ReadonlyArray<Node>,
  order: Order,
  done: () => void,
): void => {
  const { chance, facts, line } = world
  const home = world.machines[order.home]!
  const next = (): void => {
    const kept = mine.kept().find((one) =>
      order.cameras.includes(one.camera) && one.epoch >= order.firstEpoch && one.epoch <= order.lastEpoch
    )
    if (kept === undefined) return done()
    const { camera, epoch } = kept
    const [from, to] = kept.spans[0]!
    const span: Span = [from, Math.min(to, (Math.floor(from / segment) + 1) * segment)]
    call<boolean>(world, machine, home, 4_000, (reply) => {
      const theirs = nodes[order.home]!
      const wanted = theirs.captures.lacks(camera, span)
      // Quarantine, check, sync, index: the disk may be full, and the process may die in between.
      later(world, home, wanted.length > 0 ? chance.int(10, 150) : 1, () => {
        if (home.diskFaults > 0) return reply(false)
        for (const piece of wanted) {
          theirs.captures.put(camera, epoch, piece)
          facts.received(line.now(), machine.index, camera, epoch, piece)
        }
        reply(true)
      })
    }, (receipt) => {
      if (receipt !== true) return later(world, machine, retryMs, next)
      facts.receipt(line.now(), machine.index, camera, epoch, span)
      mine.drop(camera, epoch, span)
      facts.deleted(line.now(), machine.index, camera, epoch, span)
      later(world, machine, 1, next)
    })
  }
  later(world, machine, chance.int(50, 300), next)
}
