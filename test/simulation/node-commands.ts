/** A simulated guardian's hands: each command of the protection machine takes its time, may fail, and is told of once. */
import type { LeaseEvent } from "#cluster/lease.ts"
import type { ProtectionCommand } from "#cluster/protection-state.ts"
import type { RerouteStatus } from "#schema/federation-protection.ts"
import type { Inside } from "./node-words.ts"
import { sendHome } from "./recordback.ts"
import { call, later } from "./world.ts"

export interface LeaseHands {
  readonly withLease: (home: number, event: LeaseEvent) => void
  readonly letGo: (home: number) => void
}

export const makeCommands = (inside: Inside, { letGo, withLease }: LeaseHands) => {
  const { captures, machine, options: { nodes }, survives, tell, wantCaptures, world } = inside
  const { chance, facts, line, plan } = world
  const self = machine.index
  const cameras = (home: number): ReadonlyArray<number> =>
    plan.cameras.flatMap((owner, camera) => owner === home ? [camera] : [])
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
        facts.takes(line.now(), self, home)
        later(world, machine, chance.int(50, 1_200), () => {
          if (machine.databaseFaults > 0) return tell(home, { type: "slotFailed", reason: "database", inForce: 0 })
          const owned = inside.disk().owned.get(home)
          const epoch = Math.max(command.epoch, owned?.epoch ?? 0)
          const rerouteId = owned?.rerouteId ?? `${self} ${home} ${epoch}`
          inside.disk().owned.set(home, { epoch, rerouteId })
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
          turns: inside.process()!.protections.get(home)!.turns,
        })
        break
      case "releaseLease":
        letGo(home)
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
          inside.disk().owned.delete(home)
          facts.serves(line.now(), self, home, null)
          wantCaptures()
          if (survives()) tell(home, { type: "stopped" })
        }
        later(world, machine, chance.int(5, 200), attempt)
        break
      }
      case "beginRecordBack":
        sendHome(
          world,
          machine,
          captures,
          nodes,
          { ...command, home, cameras: cameras(home) },
          inside.disk().jobs,
          () => {
            tell(home, { type: "recordedBack", rerouteId: command.rerouteId })
          },
        )
        break
      case "cleanUp": {
        const attempt = (): void => {
          if (machine.databaseFaults > 0) return later(world, machine, 1_000, attempt)
          inside.disk().jobs.delete(command.rerouteId)
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
  return carryOut
}
