/**
 * Changes that were made at a guardian, and kills while the home node takes them over.
 *
 * Invariants
 * 1. Many changes of one field and some that add: a change that is lost or merged twice shows in what the home node has afterwards.
 */
import { failover, listed, protectionOf, type RerouteTold, until, untilState } from "./failover.ts"
import type { Machine } from "./namespaces.ts"
import { Refused, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { allIsWell, type Case, type Guard, oneServes, records, type Stage } from "./unclean-stage.ts"

/** More than one page of the journal. */
const renamings = 250
const channels = 3
/** Milliseconds from the first sign of the merge to the kill; the last one comes late or after it. */
const moments = [0, 60, 250] as const

interface CameraTold {
  readonly name: string
  readonly channels: ReadonlyArray<{ readonly name: string }>
}

/** On a busy machine control may be lost for a moment; what was refused was not done. */
const insist = async (machine: Machine, method: string, where: string, body: unknown): Promise<void> => {
  for (let tries = 1;; tries++) {
    try {
      await machine.call(method, where, body)
      return
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 409 || tries === 60) throw error
      await sleep(1_000)
    }
  }
}

const change = async ({ recorded: { cameraId } }: Stage, { machine, protection }: Guard): Promise<void> => {
  await until("control", () => protectionOf(machine, protection), ({ control }) => control)
  const camera = `/camera/api/v1/cameras/${cameraId}`
  for (let n = 1; n <= renamings; n++) await insist(machine, "PUT", camera, { name: `renamed ${n}` })
  for (let n = 1; n <= channels; n++) {
    const streams = [{ role: "main", sourceUrl: `rtsp://127.0.0.1:9/${n}` }]
    await insist(machine, "POST", `${camera}/channels`, { streams })
  }
}

const changesAt = async ({ machine, protection }: Guard): Promise<number> =>
  ((await protectionOf(machine, protection)) as { readonly changes?: number | null }).changes ?? -1

/** The home node begins to merge: the guardian gives back, or some changes are gone. */
const untilMerging = ({ machine, protection }: Guard) =>
  Promise.race([
    untilState(machine, protection, "failingBack", "recordingBack"),
    until("a change that was taken", () => changesAt({ machine, protection }), (left) => left < renamings + channels),
  ])

const judge = async (report: Report, { home, recorded }: Stage, serving: Guard): Promise<void> => {
  const camera = (await home.call("GET", `/camera/api/v1/cameras/${recorded.cameraId}`)) as CameraTold
  report.check(camera.name === `renamed ${renamings}`, `the camera is called ${camera.name}`)
  report.check(camera.channels.length === 1 + channels, `it has ${camera.channels.length} channels`)
  const conflicts = await listed(home, `${failover}/conflicts`)
  report.check(conflicts.length === 0, `conflicts: ${JSON.stringify(conflicts)}`)
  const left = await changesAt(serving)
  report.check(left === 0, `${left} changes still wait`)
}

const killed: Case = [
  "changes made at a guardian are merged once, however often either node is killed meanwhile",
  async (report, stage) => {
    const { home } = stage
    await home.kill()
    const { serving } = await oneServes(stage)
    await change(stage, serving)
    for (const [n, waitMs] of moments.entries()) {
      if (!home.running) await home.start()
      await untilMerging(serving)
      await sleep(waitMs)
      const one = n === 1 ? serving.machine : home
      await one.kill()
      if (one !== home) await one.start()
    }
    if (!home.running) await home.start()
    await allIsWell(report, stage)
    await judge(report, stage, serving)
  },
]

/** Of changes that cannot be read any more: a kind that nobody knows. */
const unreadable = "UPDATE federation_journal SET kind = 'none'"
const readable = "UPDATE federation_journal SET kind = 'camera'"

interface Held {
  readonly refusals: number
  readonly reason: string
}
const heldAt = async ({ machine }: Guard): Promise<Held | null> => {
  const [newest] = await listed<RerouteTold & { readonly held: Held | null }>(machine, `${failover}/reroutes`)
  return newest?.held ?? null
}

/** The home node is back, and its guardian goes on serving as the change cannot be fetched; then an administrator decides. */
const heldUp = async (report: Report, stage: Stage, name: string): Promise<Guard> => {
  const { home, recorded } = stage
  await home.kill()
  const { serving } = await oneServes(stage)
  const { machine, protection } = serving
  await until("control", () => protectionOf(machine, protection), ({ control }) => control)
  await insist(machine, "PUT", `/camera/api/v1/cameras/${recorded.cameraId}`, { name })
  machine.sql(unreadable)
  await home.start()
  const held = await until("a failback that is held up", () => heldAt(serving), (one) => (one?.refusals ?? 0) >= 3)
  report.check(held!.reason.includes("changed"), `the reason is: ${held!.reason}`)
  await until(
    "word of it",
    async () => JSON.stringify(await machine.call("GET", "/notification/api/v1/notifications?limit=100")),
    (events) => events.includes("failover.failback.held"),
  )
  await records(stage, machine)
  await machine.call("POST", `${failover}/protections/${protection}/failback?withoutChanges=true`)
  await until(
    "a reroute that only its changes hold up",
    () => heldAt(serving),
    (one) => one !== null && one.refusals === 0,
  )
  await records(stage, home)
  return serving
}
const nameAtHome = async ({ home, recorded }: Stage): Promise<string> =>
  ((await home.call("GET", `/camera/api/v1/cameras/${recorded.cameraId}`)) as CameraTold).name

const unfetchable: Case = [
  "changes that cannot be fetched hold a failback up, which is told; without them it succeeds, and they follow or are discarded",
  async (report, stage) => {
    const first = await heldUp(report, stage, "follows later")
    report.check((await nameAtHome(stage)) !== "follows later", "it has a change that could not be fetched")
    first.machine.sql(readable)
    await until("a change that follows", () => nameAtHome(stage), (name) => name === "follows later")
    await allIsWell(report, stage)

    const second = await heldUp(report, stage, "never comes")
    await second.machine.call("POST", `${failover}/protections/${second.protection}/discard-changes`)
    await allIsWell(report, stage)
    report.check((await nameAtHome(stage)) === "follows later", `the camera is called ${await nameAtHome(stage)}`)
    const audit = JSON.stringify(await second.machine.call("GET", "/auth/api/v1/audit?limit=200"))
    report.check(audit.includes("discarded"), "the audit log does not tell what was discarded")
  },
]

export const changing: ReadonlyArray<Case> = [killed, unfetchable]
