/**
 * A simulated node's part in leases: as a holder for itself and for whom it serves, and as a voter.
 *
 * Invariants
 * 1. A promise is on disk before its answer leaves.
 */
import { defaultLease, type LeaseEvent, leaseStep, unvote, vote } from "#cluster/lease.ts"
import type { Inside, Node } from "./node-words.ts"
import { call, nodeId } from "./world.ts"

export const makeLeases = (inside: Inside) => {
  const { machine, now, options: { nodes }, survives, tell, withHome, world } = inside
  const { facts, line } = world
  const self = machine.index
  const withLease = (home: number, event: LeaseEvent): void => {
    const process = inside.process()
    const holder = process?.holders.get(home)
    if (process === null || holder === undefined) return
    const next = leaseStep(holder, event, now())
    process.holders.set(home, next.holder)
    const question = next.commands.find((command) => command.type === "request")?.request
    if (question !== undefined) facts.leaseAsked(line.now(), self, home, question)
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
        if (command.type === "obtained") facts.leaseObtained(line.now(), self, home, command.epoch)
        // What is asked for anew, with another epoch, is not lost.
        if (command.type === "lost" && event.type !== "want") {
          facts.leaseLost(line.now(), self, home, next.holder.wanted?.epoch ?? 0)
        }
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
    const process = inside.process()
    const one = process?.voters.get(home)
    if (process === null || one === undefined) return null
    const next = vote(one, request, override, defaultLease, now())
    process.voters.set(home, next.voter)
    const { bootId, epoch, holder, round, termMs } = request
    facts.leaseVoted(line.now(), self, home, {
      holder: world.indexOf(holder),
      bootId,
      round,
      epoch,
      endless: termMs === null,
      override,
      granted: next.answer.granted,
    })
    if (next.keep !== null) {
      inside.disk().promises.set(home, next.keep)
      if (!survives()) return null
    }
    return next.answer
  }
  const unballot = (home: number, release: Parameters<typeof unvote>[1]): void => {
    const process = inside.process()
    const one = process?.voters.get(home)
    if (process === null || one === undefined) return
    const next = unvote(one, release, now())
    process.voters.set(home, next.voter)
    facts.leaseFreed(line.now(), self, home, { ...release, holder: world.indexOf(release.holder) })
    if (next.keep !== null) inside.disk().promises.set(home, next.keep)
  }
  const letGo = (home: number): void => {
    withLease(home, { type: "release" })
    const process = inside.process()
    // What a former process of this node promised itself, nobody else would take back.
    if (process !== null && process.holders.get(home)?.wanted === null) {
      unballot(home, { homeNodeId: nodeId(home), holder: machine.id, bootId: process.bootId, round: 0 })
    }
  }
  return { withLease, letGo, ballot, unballot }
}
