/** A node whose PostgreSQL hangs, dies and is not there at the start: the short form of `npm run prove:database`. */
import { expect, it } from "vitest"
import { proveDatabase } from "./harness/database-proof.ts"
import { makeReport } from "./harness/report.ts"
import { missing } from "./peers/installed.ts"

const absent = missing("ffmpeg")

it.skipIf(absent.length > 0)(
  `no picture is missed while PostgreSQL is away${absent.length > 0 ? " (skipped: ffmpeg is not installed)" : ""}`,
  async () => {
    const report = makeReport(true)
    await proveDatabase(report, { cameras: 2, seconds: 8, startSeconds: 2, ways: ["broken"] })
    expect(report.faults).toEqual([])
  },
  120_000,
)
