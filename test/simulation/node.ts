/**
 * A simulated node: it carries out the commands of the production state machines as the product's fibers do, with a disk that
 * keeps what it was told to keep and a database that may be away.
 *
 * Invariants
 * 1. No decision is made here that belongs to `cluster/protection.ts`, `cluster/lease.ts` or `cluster/homecoming.ts`.
 * 2. What a command needs is on disk before it is carried out, and nothing else is: a new process knows only that.
 */
import { defaultHomecoming, homecoming, type HomecomingEvent, homeStep, isRerouted } from "#cluster/homecoming.ts"
import { defaultLease, leaseHolder, mayControl, voter } from "#cluster/lease.ts"
import { type Protection, type ProtectionEvent, register, statusOf } from "#cluster/protection-state.ts"
import { step } from "#cluster/protection.ts"
import { defaultSettings, type RerouteStatus } from "#schema/federation-protection.ts"
import type { ProtectionClass } from "#schema/federation.ts"
import type { Captures } from "./cameras.ts"
import { makeCommands } from "./node-commands.ts"
import { makeLeases } from "./node-leases.ts"
import type { Disk, Inside, Node, NodeOptions, Process } from "./node-words.ts"
import { call, clock, later, type Machine, nodeId, type World } from "./world.ts"

const bundleDigest = (n: number): string => `digest ${n}`

export const makeNode = (world: World, machine: Machine, captures: Captures, options: NodeOptions): Node => {
  const { chance, facts, line, plan } = world
  const self = machine.index
  const { guardians, nodes, relations, rolls } = options
  const newDisk = (): Disk => ({
    homecoming: { ...homecoming(machine.id, 1, 0), guardians: guardians.map(nodeId) },
    protections: new Map(relations.map((one) => [
      one.home,
      register(
        {
          self: machine.id,
          homeNodeId: nodeId(one.home),
          class: one.class,
          automatic: one.automatic,
          rank: one.rank,
          granted: true,
          settings: defaultSettings,
        },
        1,
        0,
      ),
    ])),
    promises: new Map(),
    owned: new Map(),
    jobs: new Map(),
  })
  let disk = newDisk()
  let process: Process | null = null
  const now = (): number => clock(world, machine)
  const classOf = (home: number): ProtectionClass => relations.find((one) => one.home === home)?.class ?? "warm"
  /** False: the process died here. */
  const survives = (): boolean => {
    if (world.crashes === 0 || !chance.chance(world.crashes)) return true
    world.tell(() => `node ${self} dies between disk and command`)
    node.kill()
    line.after(chance.int(500, 8_000), () => node.start())
    return false
  }

  const wantCaptures = (): void => {
    plan.cameras.forEach((home, camera) => {
      if (home === self) captures.want(camera, process?.home.epoch ?? null, false)
      else if (disk.protections.has(home)) {
        const kind = classOf(home)
        const owned = disk.owned.get(home)
        const shadow = kind === "shadow" && (process?.protections.get(home)?.bundle.held ?? null) !== null
        captures.want(camera, owned === undefined || kind === "liveOnly" ? null : owned.epoch, shadow)
      }
    })
  }

  const withHome = (
    event: HomecomingEvent,
    reply?: (answer: { readonly agreed: boolean; readonly epoch: number }) => void,
  ): void => {
    if (process === null) return
    const next = homeStep(process.home, event, defaultHomecoming, now())
    process.home = next.state
    if (next.commands.length > 0 || event.type === "raised") disk.homecoming = next.state
    if (event.type === "raised") {
      world.tell(() => `node ${self} serves itself with epoch ${next.state.epoch}`)
      wantCaptures()
      withLease(self, { type: "want", epoch: next.state.epoch, override: false, turns: [] })
    }
    let raised = (): void => undefined
    const agree = next.commands.find((command) => command.type === "agree")
    if (agree !== undefined) {
      const { epoch } = agree
      if (next.commands.some((command) => command.type === "raise")) raised = () => reply?.({ agreed: true, epoch })
      else reply?.({ agreed: true, epoch: Math.max(epoch, process.home.epoch) })
    }
    for (const command of next.commands) {
      if (command.type === "refuse") reply?.({ agreed: false, epoch: command.inForce })
      if (command.type === "askGuardians") {
        for (const guardian of guardians) {
          call<RerouteStatus | null>(world, machine, world.machines[guardian]!, 0, (answer) => {
            answer(nodes[guardian]!.rpc.status(self, self))
          }, (status) => {
            if (status !== null) withHome({ type: "answered", status })
          })
        }
      }
      if (command.type === "raise") {
        const { epoch } = command
        later(world, machine, chance.int(5, 200), () => {
          if (machine.databaseFaults > 0) return withHome({ type: "raiseFailed" })
          disk.homecoming = { ...disk.homecoming, epoch: Math.max(disk.homecoming.epoch, epoch) }
          if (!survives()) return
          withHome({ type: "raised", epoch })
          raised()
        })
      }
    }
  }

  const tell = (home: number, event: ProtectionEvent): void => {
    const before = process?.protections.get(home)
    if (process === null || before === undefined) return
    const next = step(before, event, now())
    const boot = process
    boot.protections.set(home, next.state)
    if (next.commands.length > 0) disk.protections.set(home, next.state)
    for (const command of next.commands) {
      world.tell(() =>
        `guardian ${self} of ${home} on ${event.type}: ${
          command.type === "tellState" ? `${command.from} -> ${command.to} ${command.reason}` : JSON.stringify(command)
        }`
      )
    }
    if (before.bundle.held !== next.state.bundle.held) wantCaptures()
    if (before.bundle.held !== next.state.bundle.held || before.granted !== next.state.granted) {
      tellReady(home, next.state)
    }
    for (const command of next.commands) {
      if (command.type !== "tellState" && command.type !== "askRerouteStatus" && !survives()) return
      if (process !== boot) return
      carryOut(home, command)
    }
  }
  const tellReady = (home: number, state: Protection): void =>
    facts.ready(line.now(), self, home, state.bundle.held !== null && state.granted && !state.released)

  const inside: Inside = {
    world,
    machine,
    captures,
    options,
    process: () => process,
    disk: () => disk,
    now,
    survives,
    wantCaptures,
    withHome,
    tell,
  }
  const leases = makeLeases(inside)
  const { ballot, unballot, withLease } = leases
  const carryOut = makeCommands(inside, leases)

  const beat = (): void => {
    if (process === null) return
    withHome({ type: "tick" })
    for (const { home } of relations) {
      tell(home, { type: "tick", windowOpen: true })
      call(
        world,
        machine,
        world.machines[home]!,
        0,
        (reply: (answer: ReturnType<Node["rpc"]["heartbeat"]>) => void) => {
          reply(nodes[home]!.rpc.heartbeat(self))
        },
        (event) => {
          if (event !== null) tell(home, event)
        },
      )
    }
    if (process === null) return
    for (const home of process.holders.keys()) withLease(home, { type: "tick" })
    later(world, machine, 490 + chance.int(0, 20), beat)
  }

  const node: Node = {
    machine,
    get disk() {
      return disk
    },
    captures,
    digest: 1,
    granted: new Set(guardians),
    start: () => {
      if (machine.up) return
      machine.up = true
      machine.boot++
      machine.clockBase = chance.int(0, 1_000_000)
      const bootId = `${self} ${machine.boot}`
      process = {
        bootId,
        protections: new Map(disk.protections),
        home: disk.homecoming,
        holders: new Map([self, ...relations.map((one) => one.home)].map((home) => [
          home,
          leaseHolder({
            self: machine.id,
            homeNodeId: nodeId(home),
            bootId,
            roll: rolls[home]!,
            settings: defaultLease,
          }, now()),
        ])),
        voters: new Map(rolls.flatMap((roll, home) =>
          roll.voters.includes(machine.id) ?
            [[home, voter(machine.id, nodeId(home), disk.promises.get(home) ?? null, defaultLease, now())]] :
            []
        )),
      }
      facts.process(line.now(), self, machine.frozen > 0 ? "frozen" : "up")
      world.tell(() => `node ${self} starts`)
      wantCaptures()
      captures.changed()
      withHome({ type: "started" })
      withLease(self, { type: "want", epoch: disk.homecoming.epoch, override: false, turns: [] })
      for (const { home } of relations) {
        tell(home, { type: "restarted" })
        const state = process?.protections.get(home)
        if (state !== undefined) tellReady(home, state)
      }
      later(world, machine, chance.int(0, 500), beat)
    },
    kill: () => {
      if (!machine.up) return
      world.tell(() => `node ${self} is killed`)
      machine.up = false
      machine.waiting = []
      process = null
      captures.killed()
      captures.changed()
      facts.process(line.now(), self, "down")
    },
    replace: () => {
      disk = newDisk()
      captures.wipe()
      for (const { home } of relations) {
        facts.serves(line.now(), self, home, null)
        facts.ready(line.now(), self, home, false)
      }
      facts.wiped(line.now(), self)
    },
    tell,
    mayControl: (home) => {
      const holder = process?.holders.get(home)
      if (holder === undefined || holder.wanted === null || machine.frozen > 0) return null
      return mayControl(holder, holder.wanted.epoch, now()) ? holder.wanted.epoch : null
    },
    rpc: {
      heartbeat: (asker) => ({
        type: "heartbeat",
        epoch: process!.home.epoch,
        servingNodeId: isRerouted(process!.home) ? process!.home.turns.at(-1)!.nodeId : machine.id,
        bootId: process!.bootId,
        bundleDigest: bundleDigest(node.digest),
        granted: node.granted.has(asker),
      }),
      status: (home, asker) => {
        if (process === null) return null
        if (home === self) {
          const { epoch, turns } = process.home
          const phase = isRerouted(process.home) ? "none" : "serving"
          return { nodeId: machine.id, homeNodeId: machine.id, phase, epoch, control: false, turns }
        }
        if (asker === home) tell(home, { type: "homeAsked" })
        const state = process?.protections.get(home)
        return state === undefined ? null : statusOf(state)
      },
      lease: (home, request) => ballot(home, request, false),
      release: unballot,
      giveBack: (event, reply) => withHome(event, reply),
      bundle: (asker) => process !== null && node.granted.has(asker) ? bundleDigest(node.digest) : null,
    },
  }
  return node
}
