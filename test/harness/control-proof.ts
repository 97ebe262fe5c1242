/**
 * Who controls a home node's camera while its only guardian serves it, and what nobody may do meanwhile: asked of both nodes as an
 * administrator would.
 *
 * Invariants
 * 1. What takes its time is waited for; what may have changed while it was asked is not judged.
 */
import type { Recorded } from "./cameras.ts"
import { failover, protectionOf, type RunNodes, until } from "./failover.ts"
import type { Report } from "./report.ts"

interface ControlTold {
  readonly control: ReadonlyArray<{ readonly homeNodeId: string; readonly holder: string | null }>
}

const isElsewhere = ({ body, status }: { readonly status: number; readonly body: unknown }): boolean =>
  status === 409 && typeof body === "object" && body !== null && "code" in body && body.code === "control_elsewhere"

/** The guardian has control by its administrator's statement. */
export const judgeControlThere = async (
  report: Report,
  { guard }: RunNodes,
  [first]: ReadonlyArray<Recorded>,
): Promise<void> => {
  for (const what of [`/record/api/v1/recordings/${first!.recordingId}`, `/camera/api/v1/cameras/${first!.cameraId}`]) {
    const deleted = await guard.ask("DELETE", what)
    report.check(isElsewhere(deleted), `a guardian deletes what is another's: ${JSON.stringify(deleted)}`)
  }
  const { control: [own, served] } = (await guard.call("GET", `${failover}/status`)) as ControlTold
  report.check(
    own !== undefined && served?.holder === own.homeNodeId,
    `who controls is told as ${JSON.stringify([own, served])}`,
  )
}

/** The home node is up again, and its guardian still serves it. */
export const judgeReturned = async (
  report: Report,
  { guard, home, protection }: RunNodes,
  [first]: ReadonlyArray<Recorded>,
): Promise<void> => {
  const control = async () => (await protectionOf(guard, protection)).control
  const before = await control()
  // A change that changes nothing, where it is let through.
  const capability = { name: "audio", supported: "asTold" }
  const asked = await home.ask("PUT", `/camera/api/v1/cameras/${first!.cameraId}/capabilities`, capability)
  if (before && (await control())) {
    // 503 while it has not heard of its guardian yet.
    report.check(
      isElsewhere(asked) || asked.status === 503,
      `two nodes control a camera: the home node answers ${asked.status}`,
    )
  }
}

/** The cameras are at home. */
export const untilControlAtHome = ({ home }: RunNodes): Promise<unknown> =>
  until(
    "control at home again",
    async () => ((await home.call("GET", `${failover}/status`)) as ControlTold).control[0],
    (own) => own !== undefined && own.holder === own.homeNodeId,
  )
