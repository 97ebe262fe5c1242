/**
 * Both nodes change a camera around a takeover: what one of them changed is in force after the failback, and what both changed is shown and
 * decided.
 *
 * Invariants
 * 1. The guardian stands still while the home node changes its camera and is killed, so that it cannot have heard of it.
 */
import type { Recorded } from "./cameras.ts"
import { failover, listed, protectionOf, until } from "./failover.ts"
import type { NodeProcess } from "./node-process.ts"
import type { Report } from "./report.ts"

interface Nodes {
  readonly home: NodeProcess
  readonly guard: NodeProcess
  readonly protection: string
}
interface CameraTold {
  readonly name: string
  readonly description: string
}
interface ConflictTold {
  readonly id: string
  readonly thingId: string
  readonly field: string
  readonly here: unknown
  readonly there: unknown
  readonly inForce: string
  readonly thereBy: string
}

const cameraAt = (id: string) => `/camera/api/v1/cameras/${id}`
const conflictsOf = (home: NodeProcess) => listed<ConflictTold>(home, `${failover}/conflicts`)

/** The home node is killed right after it changed its first camera; answers when, epoch milliseconds. */
export const killChanged = async ({ guard, home }: Nodes, [first]: ReadonlyArray<Recorded>): Promise<number> => {
  process.kill(guard.pid, "SIGSTOP")
  try {
    await home.call("PUT", cameraAt(first!.cameraId), { name: "set at home", description: "moved" })
    return await home.kill()
  } finally {
    process.kill(guard.pid, "SIGCONT")
  }
}

/** The guardian changes nothing until its administrator says that the home node is off. */
export const changeThere = async (
  report: Report,
  { guard, protection }: Nodes,
  [first]: ReadonlyArray<Recorded>,
): Promise<void> => {
  const refused = await guard.ask("PUT", cameraAt(first!.cameraId), { name: "set without control" })
  report.check(refused.status === 409, `a change without control was answered with ${refused.status}`)
  await guard.call("POST", `${failover}/protections/${protection}/takeover`, { homeIsOff: true })
  await until("control", () => protectionOf(guard, protection), ({ control }) => control)
  await guard.callSoon("PUT", cameraAt(first!.cameraId), { name: "set there" })
  await guard.callSoon("PUT", `/record/api/v1/recordings/${first!.recordingId}`, { retentionDays: 5 })
  const told = (await protectionOf(guard, protection)) as { readonly changes?: number }
  report.check(told.changes === 2, `${told.changes} changes wait for the home node`)
}

/** After the failback. */
export const judgeMerged = async (
  report: Report,
  { guard, home, protection }: Nodes,
  [first]: ReadonlyArray<Recorded>,
): Promise<void> => {
  const camera = async () => (await home.call("GET", cameraAt(first!.cameraId))) as CameraTold
  const merged = await camera()
  report.check(merged.description === "moved", `a change at home alone became ${merged.description}`)
  const recording = (await home.call("GET", `/record/api/v1/recordings/${first!.recordingId}`)) as {
    readonly retentionDays: number
  }
  report.check(recording.retentionDays === 5, `a change there alone became ${recording.retentionDays} days`)
  const waiting = (await protectionOf(guard, protection)) as { readonly changes?: number }
  report.check(waiting.changes === 0, `${waiting.changes} changes still wait after the failback`)

  const conflicts = await conflictsOf(home)
  const [conflict] = conflicts
  report.check(conflicts.length === 1, `${conflicts.length} conflicts: ${JSON.stringify(conflicts)}`)
  if (conflict === undefined) return
  const { field, here, inForce, there, thereBy } = conflict
  report.check(
    field === "name" && here === "set at home" && there === "set there" && inForce === "there" && thereBy === "admin",
    `the conflict is ${JSON.stringify(conflict)}`,
  )
  report.check(merged.name === "set there", `the later change is not in force, but ${merged.name}`)
  await home.call("POST", `${failover}/conflicts/${conflict.id}/resolve`, { side: "here" })
  report.check((await camera()).name === "set at home", "what was chosen is not in force")
  report.check((await conflictsOf(home)).length === 0, "a conflict that was decided is still shown")
  await until(
    "the merge in the audit log of the home node",
    async () => JSON.stringify(await home.call("GET", "/auth/api/v1/audit?limit=200")),
    (audit) => audit.includes("failover.configurationMerged"),
  )
}
