/**
 * A simulated node: it carries out the commands of the production state machines as the product's fibers do, with a disk that
 * keeps what it was told to keep and a database that may be away.
 *
 * Invariants
 * 1. No decision is made here that belongs to `cluster/protection.ts`, `cluster/lease.ts` or `cluster/homecoming.ts`.
 * 2. What a command needs is on disk before it is carried out, and nothing else is: a new process knows only that.
 */
import {
  defaultHomecoming,
  type Homecoming,
  homecoming,
  type HomecomingEvent,
  homeStep,
  isRerouted,
} from "#cluster/homecoming.ts"
import {
  defaultLease,
  type LeaseEvent,
  type LeaseHolder,
  leaseHolder,
  leaseStep,
  mayControl,
  type Promised,
  type Roll,
  unvote,
  vote,
  type Voter,
  voter,
} from "#cluster/lease.ts"
import {
  type Protection,
  type ProtectionCommand,
  type ProtectionEvent,
  register,
  statusOf,
} from "#cluster/protection-state.ts"
import { step } from "#cluster/protection.ts"
import type { JobState } from "#cluster/recordback.ts"
import { defaultSettings, type RerouteStatus } from "#schema/federation-protection.ts"
import type { ProtectionClass } from "#schema/federation.ts"
import type { Captures } from "./cameras.ts"
import { sendHome } from "./recordback.ts"
import { call, clock, later, type Machine, nodeId, type World } from "./world.ts"

export interface Disk {
  homecoming: Homecoming
  readonly protections: Map<number, Protection>
  readonly promises: Map<number, Promised>
  /** Slots of others that this node owns, in its database. */
  readonly owned: Map<number, { readonly epoch: number; readonly rerouteId: string }>
  /** Record-back jobs, by reroute. */
  readonly jobs: Map<string, JobState>
}

export interface Node {
  readonly machine: Machine
  readonly disk: Disk
  readonly captures: Captures
  readonly start: () => void
  readonly kill: () => void
  /** New hardware under the old identity: nothing is on its disks. */
  readonly replace: () => void
  /** A person's action, or news of the home node, at a guardian. */
  readonly tell: (home: number, event: ProtectionEvent) => void
  readonly mayControl: (home: number) => number | null
  /** What the others call. */
  readonly rpc: {
    readonly heartbeat: (asker: number) => Extract<ProtectionEvent, { readonly type: "heartbeat" }>
    readonly status: (home: number, asker: number) => RerouteStatus | null
    readonly lease: (home: number, request: Parameters<typeof vote>[1]) => ReturnType<typeof vote>["answer"] | null
    readonly release: (home: number, release: Parameters<typeof unvote>[1]) => void
    readonly giveBack: (
      event: Extract<HomecomingEvent, { readonly type: "giveBack" }>,
      reply: (answer: { readonly agreed: boolean; readonly epoch: number }) => void,
    ) => void
    readonly bundle: (asker: number) => string | null
  }
  /** Changed by people: a new version of the configuration, or another word on who may guard. */
  digest: number
  readonly granted: Set<number>
}

export interface Relation {
  readonly home: number
  readonly rank: number
  readonly class: ProtectionClass
  readonly automatic: boolean
}

export interface NodeOptions {
  readonly relations: ReadonlyArray<Relation>
  readonly guardians: ReadonlyArray<number>
  /** Who votes about whom; index is the home node. */
  readonly rolls: ReadonlyArray<Roll>
  readonly nodes: ReadonlyArray<Node>
}

const bundleDigest = (n: number): string => `digest ${n}`

interface Process {
  readonly bootId: string
  readonly protections: Map<number, Protection>
  readonly holders: Map<number, LeaseHolder>
  readonly voters: Map<number, Voter>
  home: Homecoming
}

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
  const cameras = (home: number): ReadonlyArray<number> =>
    plan.cameras.flatMap((owner, camera) => owner === home ? [camera] : [])
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

  const withLease = (home: number, event: LeaseEvent): void => {
    const holder = process?.holders.get(home)
    if (process === null || holder === undefined) return
    const next = leaseStep(holder, event, now())
    process.holders.set(home, next.holder)
    for (const command of next.commands) {
      if (command.type === "request") {
        const { override, request } = command
        const to = world.indexOf(command.to)
        if (to === self) {
          const answer = ballot(home, request, override)
          if (answer !== null) withLease(home, { type: "answer", answer })
          continue
        }
        call<ReturnType<Node["rpc"]["lease"]>>(world, machine, world.machines[to]!, 0, (reply) => {
          reply(nodes[to]!.rpc.lease(home, request))
        }, (answer) => {
          if (answer !== null) withLease(home, { type: "answer", answer })
        })
      } else if (command.type === "release") {
        const { release } = command
        const to = world.indexOf(command.to)
        if (to === self) unballot(home, release)
        else call(world, machine, world.machines[to]!, 0, () => nodes[to]!.rpc.release(home, release), () => undefined)
      } else {
        world.tell(() => `node ${self} lease of ${home}: ${command.type}`)
        if (command.type === "denied") {
          if (home === self) withHome({ type: "leaseDenied", inForce: command.inForce, turns: command.turns })
          else tell(home, { type: "leaseDenied", turns: command.turns })
        } else if (home !== self) {
          tell(home, command.type === "lost" ? { type: "leaseLost" } : { type: "leaseObtained", epoch: command.epoch })
        }
      }
    }
  }
  const ballot = (home: number, request: Parameters<typeof vote>[1], override: boolean) => {
    const one = process?.voters.get(home)
    if (process === null || one === undefined) return null
    const next = vote(one, request, override, defaultLease, now())
    process.voters.set(home, next.voter)
    if (next.keep !== null) {
      disk.promises.set(home, next.keep)
      if (!survives()) return null
    }
    return next.answer
  }
  const unballot = (home: number, release: Parameters<typeof unvote>[1]): void => {
    const one = process?.voters.get(home)
    if (process === null || one === undefined) return
    const next = unvote(one, release, now())
    process.voters.set(home, next.voter)
    if (next.keep !== null) disk.promises.set(home, next.keep)
  }

  /** Every answer is told once, after the database or the other node took its time. */
  const carryOut = (home: number, command: ProtectionCommand): void => {
    const homeMachine = world.machines[home]!
    switch (command.type) {
      case "askRerouteStatus":
        for (const other of [home, ...plan.guardians[home]!]) {
          if (other === self) continue
          call<RerouteStatus | null>(world, machine, world.machines[other]!, 0, (reply) => {
            reply(nodes[other]!.rpc.status(home, self))
          }, (status) => {
            if (status !== null) tell(home, { type: "answered", status })
          })
        }
        break
      case "refreshBundle":
        call<string | null>(
          world,
          machine,
          homeMachine,
          5_000,
          (reply) => reply(nodes[home]!.rpc.bundle(self)),
          (digest) => {
            tell(
              home,
              digest === null ? { type: "bundleFailed", reason: "no answer" } : { type: "bundleRefreshed", digest },
            )
          },
        )
        break
      case "takeSlot":
        later(world, machine, chance.int(50, 1_200), () => {
          if (machine.databaseFaults > 0) return tell(home, { type: "slotFailed", reason: "database", inForce: 0 })
          const owned = disk.owned.get(home)
          const epoch = Math.max(command.epoch, owned?.epoch ?? 0)
          const rerouteId = owned?.rerouteId ?? `${self} ${home} ${epoch}`
          disk.owned.set(home, { epoch, rerouteId })
          facts.serves(line.now(), self, home, epoch)
          wantCaptures()
          if (survives()) tell(home, { type: "slotTaken", epoch, rerouteId })
        })
        break
      case "acquireLease":
        withLease(home, {
          type: "want",
          epoch: command.epoch,
          override: command.override,
          turns: process!.protections.get(home)!.turns,
        })
        break
      case "releaseLease":
        withLease(home, { type: "release" })
        break
      case "giveBack": {
        const { epoch, turns } = command
        call<{ readonly agreed: boolean; readonly epoch: number }>(world, machine, homeMachine, 5_000, (reply) => {
          nodes[home]!.rpc.giveBack({ type: "giveBack", from: machine.id, epoch, turns }, reply)
        }, (answer) => {
          if (answer?.agreed === true) tell(home, { type: "gaveBack", epoch: answer.epoch })
          else tell(home, { type: "giveBackFailed", reason: "refused", inForce: answer?.epoch ?? 0 })
        })
        break
      }
      case "stopServing": {
        const attempt = (): void => {
          if (machine.databaseFaults > 0) return later(world, machine, 1_000, attempt)
          disk.owned.delete(home)
          facts.serves(line.now(), self, home, null)
          wantCaptures()
          if (survives()) tell(home, { type: "stopped" })
        }
        later(world, machine, chance.int(5, 200), attempt)
        break
      }
      case "beginRecordBack":
        sendHome(world, machine, captures, nodes, { ...command, home, cameras: cameras(home) }, disk.jobs, () => {
          tell(home, { type: "recordedBack", rerouteId: command.rerouteId })
        })
        break
      case "cleanUp": {
        const attempt = (): void => {
          if (machine.databaseFaults > 0) return later(world, machine, 1_000, attempt)
          disk.jobs.delete(command.rerouteId)
          tell(home, { type: "cleanedUp", rerouteId: command.rerouteId })
        }
        later(world, machine, chance.int(5, 200), attempt)
        break
      }
      case "dropBundle":
      case "tellState":
        break
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
