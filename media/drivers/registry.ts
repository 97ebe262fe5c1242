/** Every camera family by its name. A new literal in `Assignment.driver` does not compile until it stands here. */
import type { Assignment } from "../recorder.ts"
import type { SourceDriver } from "../source.ts"
import { rtspDriver } from "./rtsp.ts"

export const drivers = {
  rtsp: rtspDriver,
} satisfies Record<Assignment["driver"], SourceDriver>
