/** `nightjar doctor --reindex`: has the running node rebuild its index from its disks, and tells how far it is and what it found. */
import type { IndexRebuild, IndexReport } from "#schema/record-index.ts"
import { Console, Duration, Effect } from "effect"
import { Flag } from "effect/cli"
import { withNode } from "./client.ts"
import { CommandFailed } from "./failure.ts"
import { print, type Row } from "./output.ts"

export const reindexFlag = Flag.Boolean("reindex").pipe(
  Flag.withDescription("Have the running node bring cameras, recordings and the index of footage back from its disks"),
  Flag.withDefault(false),
)

const lookEvery = Duration.millis(500)

const summary = (report: IndexReport): ReadonlyArray<Row> => [
  { what: "files found", count: report.files },
  { what: "rows added", count: report.added },
  { what: "rows corrected", count: report.corrected },
  { what: "rows removed", count: report.removed },
  { what: "gaps", count: report.gaps },
  { what: "torn files, used as far as they read", count: report.torn },
  { what: "files of deleted recordings or other nodes", count: report.unknown },
  { what: "recordings recovered", count: report.recordingsRecovered },
  { what: "cameras recovered", count: report.camerasRecovered },
  { what: "left alone, not understood", count: report.leftAloneCount },
]

/** What is behind the counts. */
const details = (report: IndexReport): ReadonlyArray<string> => [
  ...report.recovered.map(({ name, recordings, working }) =>
    `${name}: ${recordings} recording${recordings === 1 ? "" : "s"}, ${
      working ? "records on" : "footage only; give it its address to record again"
    }`
  ),
  ...report.leftAlone.map(({ path, reason }) => `${path}: ${reason}`),
]

export const reindex = (json: boolean) =>
  withNode((client, _address, signIn) =>
    Effect.gen(function*() {
      const look = (id: string) =>
        Effect.catchTag(
          client.record.indexRebuild({ params: { id } }),
          "Unauthenticated",
          () => Effect.andThen(signIn, client.record.indexRebuild({ params: { id } })),
        )
      let job: IndexRebuild = (yield* client.record.rebuildIndex({ headers: {} })).body
      let told = -1
      while (job.state === "running") {
        const percent = Math.floor(job.progress * 100)
        if (!json && percent > told) yield* Console.error(`reading the disks and writing the index: ${percent} %`)
        told = Math.max(told, percent)
        yield* Effect.sleep(lookEvery)
        job = yield* look(job.id)
      }
      const { report } = job
      yield* print(json, job, report === null ? [] : summary(report), "")
      if (report === null) {
        return yield* new CommandFailed({ detail: job.error ?? "The index could not be rebuilt.", exitCode: 1 })
      }
      if (!json) yield* Effect.forEach(details(report), (line) => Console.log(line), { discard: true })
    })
  )
