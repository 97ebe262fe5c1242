/**
 * What breaks, from the seed: each run chooses some kinds of faults and how often they come, so that rare meetings are met too.
 * Every fault ends by itself, at the latest when the quiet time begins.
 */
import type { Node } from "./node-words.ts"
import type { Chance } from "./random.ts"
import type { World } from "./world.ts"

export const faultKinds = [
  "kill",
  "freeze",
  "cut",
  "oneWay",
  "isolate",
  "flap",
  "lossy",
  "slow",
  "twice",
  "cameraCut",
  "cameraOff",
  "diskFull",
  "databaseDown",
  "crash",
  "person",
  "revoke",
  "configuration",
  "homeOff",
  "replaced",
] as const
export type FaultKind = typeof faultKinds[number]

/** Under these nobody can be held to serve promptly, or alone. */
const disturbing: ReadonlySet<FaultKind> = new Set<FaultKind>([
  "cut",
  "oneWay",
  "isolate",
  "flap",
  "lossy",
  "slow",
  "twice",
  "crash",
  "person",
  "revoke",
  "homeOff",
])

/** Begins a fault; the answer ends it. */
type Fault = (world: World, nodes: ReadonlyArray<Node>, lastsMs: number) => () => void

const nothing = (): void => undefined
const someNode = (world: World): number => world.chance.int(0, world.plan.nodes - 1)

const links = (world: World, chosen: ReadonlyArray<readonly [number, number]>): () => void => {
  for (const [from, to] of chosen) world.links[from]![to]!.cuts++
  return () => chosen.forEach(([from, to]) => world.links[from]![to]!.cuts--)
}
const pair = (world: World): readonly [number, number] => {
  const from = someNode(world)
  const to = (from + world.chance.int(1, world.plan.nodes - 1)) % world.plan.nodes
  return [from, to]
}
const around = (world: World, node: number): ReadonlyArray<readonly [number, number]> =>
  world.machines.flatMap(({ index }) => index === node ? [] : [[index, node], [node, index]] as const)

const changed = (nodes: ReadonlyArray<Node>): void => nodes.forEach((node) => node.captures.changed())

const thaw = (world: World, node: Node): void => {
  const { machine } = node
  machine.frozen--
  if (machine.frozen > 0 || !machine.up) return
  world.facts.process(world.line.now(), machine.index, "up")
  const waiting = machine.waiting
  machine.waiting = []
  node.captures.changed()
  for (const run of waiting) if (machine.up) run()
}

const faults: Record<FaultKind, Fault> = {
  kill: (world, nodes) => {
    const node = nodes[someNode(world)]!
    node.kill()
    return () => node.start()
  },
  freeze: (world, nodes) => {
    const node = nodes[someNode(world)]!
    node.machine.frozen++
    if (node.machine.up) world.facts.process(world.line.now(), node.machine.index, "frozen")
    node.captures.changed()
    return () => thaw(world, node)
  },
  cut: (world) => {
    const [a, b] = pair(world)
    return links(world, [[a, b], [b, a]])
  },
  oneWay: (world) => links(world, [pair(world)]),
  isolate: (world) => links(world, around(world, someNode(world))),
  flap: (world, _, lastsMs) => {
    const [a, b] = pair(world)
    let heal = links(world, [[a, b], [b, a]])
    let over = false
    let down = true
    const flip = (): void => {
      if (over) return
      if (down) heal()
      else heal = links(world, [[a, b], [b, a]])
      down = !down
      world.line.after(world.chance.spread(200, 6_000), flip)
    }
    world.line.after(Math.min(lastsMs, 1_000), flip)
    return () => {
      over = true
      if (down) heal()
    }
  },
  lossy: (world) => {
    const [a, b] = pair(world)
    const loss = world.chance.spread(0.05, 0.7)
    world.links[a]![b]!.loss = loss
    return () => void (world.links[a]![b]!.loss = 0)
  },
  slow: (world) => {
    const [a, b] = pair(world)
    const link = world.links[a]![b]!
    link.delayMs = world.chance.spread(50, 4_000)
    link.jitterMs = world.chance.spread(10, 3_000)
    return () => {
      link.delayMs = 2
      link.jitterMs = 8
    }
  },
  twice: (world) => {
    const [a, b] = pair(world)
    world.links[a]![b]!.twice = 0.2
    return () => void (world.links[a]![b]!.twice = 0)
  },
  cameraCut: (world, nodes) => {
    const node = someNode(world)
    const camera = world.chance.int(0, world.plan.cameras.length - 1)
    const fact = (open: boolean): void => world.facts.way(world.line.now(), node, camera, open)
    world.reach[node]![camera]!++
    fact(false)
    changed(nodes)
    return () => {
      world.reach[node]![camera]!--
      fact(true)
      changed(nodes)
    }
  },
  cameraOff: (world, nodes) => {
    const camera = world.chance.int(0, world.plan.cameras.length - 1)
    const all = (by: 1 | -1): void =>
      world.reach.forEach((ways, node) => {
        ways[camera]! += by
        world.facts.way(world.line.now(), node, camera, by < 0)
      })
    all(1)
    changed(nodes)
    return () => {
      all(-1)
      changed(nodes)
    }
  },
  diskFull: (world, nodes) => {
    const { captures, machine } = nodes[someNode(world)]!
    machine.diskFaults++
    world.facts.room(world.line.now(), machine.index, false)
    captures.changed()
    return () => {
      machine.diskFaults--
      world.facts.room(world.line.now(), machine.index, true)
      captures.changed()
    }
  },
  databaseDown: (world, nodes) => {
    const { machine } = nodes[someNode(world)]!
    machine.databaseFaults++
    world.facts.database(world.line.now(), machine.index, false)
    return () => {
      machine.databaseFaults--
      world.facts.database(world.line.now(), machine.index, machine.databaseFaults === 0)
    }
  },
  crash: (world) => {
    const before = world.crashes
    world.crashes = 0.05
    return () => void (world.crashes = before)
  },
  person: (world, nodes) => {
    const node = nodes[someNode(world)]!
    const homes = [...node.disk.protections.keys()]
    if (homes.length === 0) return nothing
    const home = world.chance.pick(homes)
    const type = world.chance.pick(["takeover", "drill", "failback", "failback"] as const)
    if (node.machine.frozen > 0) return nothing
    if (type === "failback") node.tell(home, { type })
    else node.tell(home, { type: "takeover", drill: type === "drill", override: false })
    return nothing
  },
  revoke: (world, nodes) => {
    const home = nodes[someNode(world)]!
    const guardians = world.plan.guardians[home.machine.index]!
    if (guardians.length === 0) return nothing
    const guardian = world.chance.pick(guardians)
    home.granted.delete(guardian)
    return () => void home.granted.add(guardian)
  },
  configuration: (world, nodes) => {
    nodes[someNode(world)]!.digest++
    return nothing
  },
  homeOff: (world, nodes) => {
    // The one case in which a person may move control: the home node is off, and it is seen to be.
    const home = nodes[someNode(world)]!
    home.kill()
    for (const guardian of world.plan.guardians[home.machine.index]!.slice(0, 1)) {
      const { machine, tell } = nodes[guardian]!
      world.line.after(6_000, () => {
        if (!home.machine.up && machine.frozen === 0) {
          tell(home.machine.index, { type: "takeover", drill: false, override: true })
        }
      })
    }
    return () => home.start()
  },
  replaced: (world, nodes) => {
    const node = nodes[someNode(world)]!
    if (!node.machine.up) return nothing
    node.kill()
    return () => {
      if (!node.machine.up) node.replace()
      node.start()
    }
  },
}

/** A home node and who would stand in for it first are gone together: rare by chance, and what the others are for. */
const goneTogether = (world: World, nodes: ReadonlyArray<Node>, chance: Chance): void => {
  const homes = nodes.filter(({ machine }) => world.plan.guardians[machine.index]!.length > 1)
  if (homes.length === 0 || !chance.chance(0.3)) return
  const home = chance.pick(homes)
  const both = [home, nodes[world.plan.guardians[home.machine.index]![0]!]!]
  const start = chance.int(10_000, world.plan.quietMs - 60_000)
  for (const node of both) {
    world.line.after(start + chance.int(0, 4_000), () => node.kill())
    world.line.after(start + chance.int(25_000, 60_000), () => node.start())
  }
}

/** Plans the faults of a run and returns how many of each kind there are. `apart` deals what came later than the seeds that are kept. */
export const breakThings = (
  world: World,
  nodes: ReadonlyArray<Node>,
  apart: Chance,
): ReadonlyMap<FaultKind, number> => {
  goneTogether(world, nodes, apart)
  const { chance, line, plan } = world
  const kinds = faultKinds.filter(() => chance.chance(0.35))
  const chosen = kinds.length > 0 ? kinds : [chance.pick(faultKinds)]
  const counts = new Map<FaultKind, number>()
  let last = 0
  for (let left = chance.spread(1, 40); left > 0; left--) {
    const kind = chance.pick(chosen)
    counts.set(kind, (counts.get(kind) ?? 0) + 1)
    // Trouble comes in company.
    const near = last + chance.spread(10, 10_000)
    const start = last > 0 && chance.chance(0.5) && near < plan.quietMs - 1_000 ?
      near :
      chance.int(8_000, plan.quietMs - 1_000)
    last = start
    const lasts = Math.min(chance.spread(200, 150_000), plan.quietMs - start)
    line.after(start, () => {
      world.tell(() => `fault ${kind} begins for ${lasts} ms`)
      const tell = (by: 1 | -1): void => disturbing.has(kind) ? world.facts.disturbed(line.now(), by) : undefined
      tell(1)
      const end = faults[kind](world, nodes, lasts)
      line.after(lasts, () => {
        world.tell(() => `fault ${kind} ends`)
        end()
        tell(-1)
      })
    })
  }
  line.after(plan.quietMs, () => {
    world.crashes = 0
    world.tell(() => "quiet")
    for (const node of nodes) node.start()
    // What a person took over, a person gives back.
    for (let at = 20_000; at <= 60_000; at += 20_000) {
      line.after(at, () => {
        for (const node of nodes) {
          for (const [home, state] of node.disk.protections) {
            if (state.service?.hold === true) node.tell(home, { type: "failback" })
          }
        }
      })
    }
  })
  return counts
}
