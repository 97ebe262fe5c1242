/**
 * A home node whose hardware was replaced: what it knows of itself comes from a backup that is older than what happened since.
 *
 * Invariants
 * 1. The backup was made of a node that was shut down in order, and is put back as it was; footage is in none.
 */
import { execFileSync } from "node:child_process"
import { mkdirSync, rmSync } from "node:fs"
import * as path from "node:path"
import { until } from "./failover.ts"
import { allIsWell, type Case, controllers, framesOn, oneServes, records } from "./unclean-stage.ts"

const older: Case = [
  "a home node on new hardware, with a backup from before earlier reroutes, is given its cameras and what was recorded meanwhile",
  async (report, stage) => {
    const { home } = stage
    const backup = path.join(path.dirname(home.data), "backup")
    // With owners: PostgreSQL starts on nothing that is another's.
    const copy = (from: string, to: string) => execFileSync("cp", ["-a", `${from}/.`, to])
    await home.stop()
    mkdirSync(backup)
    copy(home.data, backup)
    await home.start()
    await allIsWell(report, stage)
    // Two changes of the serving node that the backup knows nothing of.
    await home.kill()
    await records(stage, (await oneServes(stage)).serving.machine)
    await home.start()
    await allIsWell(report, stage)

    await home.stop()
    const { serving } = await oneServes(stage)
    await records(stage, serving.machine)
    home.replaceDisks()
    copy(backup, home.data)
    rmSync(backup, { recursive: true })
    // What only the old disks had is gone with them.
    stage.seen.clear()
    framesOn(stage, serving.machine)
    await home.start()
    await allIsWell(report, stage)
    await until("control at home", () => controllers(stage), ([one, ...more]) => one === home.name && more.length === 0)
  },
]

export const restoring: ReadonlyArray<Case> = [older]
