/**
 * The video wall for minutes: `npm run prove:wall -- [--tiles 24] [--seconds 300]`.
 *
 * So many cameras (1080p, recorded; 360p with ten pictures a second beside it), all of them on the wall in Chromium. Every tile must go
 * on all the time, no recording may miss a picture, and the node's memory stays as it is.
 */
import { spawnSync } from "node:child_process"
import { existsSync } from "node:fs"
import * as path from "node:path"
import { parseArgs } from "node:util"
import { benchFolder } from "../camera-simulator/footage.ts"
import { watchMemory } from "../harness/memory.ts"
import { prove, type Report } from "../harness/report.ts"
import { judgeRecordings, openWall, rateOf, untilPlaying, watchTiles } from "../harness/wall-proof.ts"

const { values } = parseArgs({
  options: { tiles: { type: "string", default: "24" }, seconds: { type: "string", default: "300" } },
})
const tiles = Number(values.tiles)
const seconds = Number(values.seconds)
const footage = { main: "calm-1920x1080-15.h264", sub: "sub-640x360-10.h264" }
/** What is kept for viewers has filled by then: packets that can be had again 2.5 s, a group of pictures 2 s, fragments 4 s. */
const fillSeconds = 15
/** Growth of the least third that is put down to the collector. */
const flatMiB = 24

const makeFootage = (report: Report): void => {
  if (Object.values(footage).every((file) => existsSync(path.join(benchFolder, file)))) return
  report.say("making the footage (once)")
  const script = path.join(import.meta.dirname, "../fixtures/make-media.sh")
  const made = spawnSync(script, ["wall"], { stdio: ["ignore", "ignore", "inherit"] })
  if (made.status !== 0) throw new Error("the footage cannot be made without ffmpeg")
}

await prove("prove:wall", async (report) => {
  makeFootage(report)
  const wall = await openWall(tiles, footage)
  try {
    const begun = performance.now()
    await untilPlaying(wall.page, tiles, 120)
    report.say(`${tiles} tiles play ${((performance.now() - begun) / 1000).toFixed(1)} s after the sign-in`)
    const memory = watchMemory(wall.node)
    await new Promise((resolve) => setTimeout(resolve, Math.min(fillSeconds, seconds / 4) * 1000))
    memory.settle()
    await watchTiles(wall, seconds, rateOf(footage.sub), report)
    const { firstMiB, lastMiB, text } = memory.stop()
    report.say(text)
    report.check(lastMiB <= firstMiB + flatMiB, `memory grows: ${text}`)
    for (const complaint of wall.complaints) report.fault(`the browser complains: ${complaint}`)
    await wall.page.close()
    await judgeRecordings(wall, footage.main, report)
  } finally {
    await wall.close(report.faults.length > 0)
  }
})
