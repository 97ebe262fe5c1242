/**
 * What a person who looks at a node sees: states, reasons, gaps, events, health, the log. All by REST, but for the log.
 *
 * Invariant: nothing here knows what should be seen; whoever asks says so.
 */
import { readFileSync } from "node:fs"
import type { Recorded } from "./cameras.ts"
import type { LedgerSpan } from "./judge.ts"
import { type NodeProcess, sleep } from "./node-process.ts"

export interface FolderSight {
  readonly name: string
  readonly state: string
  readonly detail: string
  readonly freeBytes: number
  readonly usedBytes: number
}

export interface Sight {
  /** Of the recording. */
  readonly state: string
  readonly reason: string
  /** Of the camera. */
  readonly status: string
  readonly statusReason: string
  readonly openGap: { readonly cause: string; readonly detail: string } | null
}

export const lookAt = async (node: NodeProcess, { cameraId, recordingId }: Recorded): Promise<Sight> => {
  const recording = (await node.callSoon("GET", `/record/api/v1/recordings/${recordingId}`)) as {
    readonly state: string
    readonly reason: string
  }
  const camera = (await node.callSoon("GET", `/camera/api/v1/cameras/${cameraId}`)) as {
    readonly status: string
    readonly reason: string
  }
  const now = (await node.callSoon("GET", `/record/api/v1/recordings/${recordingId}/event-status`)) as {
    readonly openGap: Sight["openGap"]
  }
  return { ...recording, status: camera.status, statusReason: camera.reason, openGap: now.openGap }
}

export const foldersOf = async (node: NodeProcess): Promise<ReadonlyArray<FolderSight>> =>
  ((await node.callSoon("POST", "/record/api/v1/storage/partitions/refresh")) as {
    readonly items: ReadonlyArray<FolderSight>
  }).items

/** Status and output of each component in `/health/detailed`, whatever the HTTP status. */
export const healthOf = async (node: NodeProcess): Promise<Readonly<Record<string, string>>> => {
  const { body } = await node.ask("GET", "/health/detailed")
  const { checks } = body as {
    readonly checks: Readonly<Record<string, ReadonlyArray<{ readonly status: string; readonly output?: string }>>>
  }
  return Object.fromEntries(
    Object.entries(checks).map(([name, [first]]) => [name, `${first?.status}: ${first?.output ?? ""}`]),
  )
}

/** Since the recording was made; what a person paused is left out unless asked for. */
export const gapsOf = async (
  node: NodeProcess,
  { createdMs, recordingId }: Recorded,
  paused: "paused" | null = null,
): Promise<ReadonlyArray<LedgerSpan>> => {
  const query = `start=${new Date(createdMs - 1_000).toISOString()}&end=${new Date(Date.now() + 1_000).toISOString()}`
  const coverage = (await node.callSoon("GET", `/record/api/v1/recordings/${recordingId}/coverage?${query}`)) as {
    readonly expectedMs: number
    readonly recordedMs: number
    readonly missingMs: number
    readonly gaps: ReadonlyArray<{ readonly start: string; readonly end: string; readonly cause: string }>
  }
  if (coverage.expectedMs !== coverage.recordedMs + coverage.missingMs) {
    throw new Error(`coverage does not add up: ${JSON.stringify({ ...coverage, gaps: coverage.gaps.length })}`)
  }
  return coverage.gaps
    .map(({ cause, end, start }) => ({ startMs: Date.parse(start), endMs: Date.parse(end), cause }))
    .filter(({ cause }) => paused !== null || cause !== "operator_paused")
}

/** Types and causes of a recording's events, oldest first. */
export const eventsOf = async (node: NodeProcess, { recordingId }: Recorded): Promise<ReadonlyArray<string>> => {
  const query = `start=${new Date(0).toISOString()}&end=${new Date(Date.now() + 60_000).toISOString()}&limit=500`
  const { items } = (await node.callSoon("GET", `/record/api/v1/recordings/${recordingId}/event-history?${query}`)) as {
    readonly items: ReadonlyArray<{ readonly type: string; readonly data: { readonly cause?: string } }>
  }
  return items.map(({ data, type }) => `${type} ${data.cause ?? ""}`.trim()).toReversed()
}

/** Lines the node logged behind the first `after` characters. */
export const logOf = (node: NodeProcess, after = 0): string => readFileSync(node.log, "utf8").slice(after)

/** Asks again and again until it holds. What was seen last either way, and how long it took. */
export const watch = async <A>(
  ask: () => Promise<A>,
  holds: (seen: A) => boolean,
  limitMs: number,
): Promise<{ readonly held: boolean; readonly seen: A; readonly tookMs: number }> => {
  const begun = performance.now()
  while (true) {
    const seen = await ask()
    const tookMs = performance.now() - begun
    if (holds(seen) || tookMs > limitMs) return { held: holds(seen), seen, tookMs }
    await sleep(250)
  }
}

/** Switches a recording off, so that its footage is sealed, or on again. */
export const toggle = (node: NodeProcess, { recordingId }: Recorded, enabled: boolean): Promise<unknown> =>
  node.callSoon("POST", `/record/api/v1/recordings/${recordingId}/toggle`, { enabled })
