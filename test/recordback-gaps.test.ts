/** What a guardian tells of missing footage, as the home node's ledger takes it. */
import { explanationsOf } from "#cluster/recordback-gaps.ts"
import { RecordingId } from "#schema/common.ts"
import type { GapCause } from "#schema/record.ts"
import { assert, it } from "@effect/vitest"

const recordingId = RecordingId.make("01900000-0000-7000-8000-000000000001")
const gap = (startMs: number, endMs: number, cause: GapCause) => ({ recordingId, startMs, endMs, cause, detail: "why" })

it("counts the camera's trouble before the change of nodes, and says nothing of the guardian's own absence", () => {
  const told = [
    gap(0, 100, "takeover"),
    gap(10, 40, "starting"),
    gap(40, 90, "camera_offline"),
    gap(60, 95, "auth_failed"),
    gap(200, 300, "node_down"),
    gap(250, 260, "disk_full"),
    gap(400, 400, "disk_full"),
  ]
  assert.deepStrictEqual(
    explanationsOf(told, "barn").map(({ cause, detail, end, start }) => [start, end, cause, detail]),
    [
      [0, 40, "takeover", "barn: why"],
      [40, 90, "camera_offline", "barn: why"],
      [90, 95, "auth_failed", "barn: why"],
      [95, 100, "takeover", "barn: why"],
      [250, 260, "disk_full", "barn: why"],
    ],
  )
})
