/** Every command of `nightjar`. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { describeSettings } from "../config.ts"
import { cameras } from "./cameras.ts"
import { CommandFailed, failed } from "./failure.ts"
import { jsonFlag, print } from "./output.ts"
import { recordings, replayUrl } from "./recordings.ts"
import { reindex, reindexFlag } from "./reindex.ts"
import { rotateKey } from "./rotate-key.ts"
import { status } from "./status.ts"

/** What acts on the node itself and is wired by `ops/main.ts`. */
export interface LocalCommands<E1, R1, E2, R2> {
  /** Runs a node until it is interrupted. */
  readonly start: Effect.Effect<void, E1, R1>
  /** What this machine and the data folder are fit for. */
  readonly examine: Effect.Effect<
    ReadonlyArray<{ readonly what: string; readonly state: "ok" | "note" | "bad"; readonly detail: string }>,
    E2,
    R2
  >
}

const config = Command.make("config", { json: jsonFlag }, ({ json }) =>
  Effect.gen(function*() {
    const lines = yield* Effect.mapError(describeSettings(), failed)
    const rows = lines.map(({ fallback, meaning, name, value }) => ({ name, value, default: fallback, meaning }))
    yield* print(json, lines, rows, "")
  })).pipe(Command.withDescription("List every setting: name, value in force, default, meaning"))

export const makeCommands = <E1, R1, E2, R2>(local: LocalCommands<E1, R1, E2, R2>) => {
  const start = Command.make("start", {}, () => Effect.mapError(local.start, failed)).pipe(
    Command.withDescription("Run a node in the foreground"),
  )
  const doctor = Command.make(
    "doctor",
    { json: jsonFlag, reindex: reindexFlag },
    ({ json, reindex: rebuild }) =>
      Effect.gen(function*() {
        if (rebuild) return yield* reindex(json)
        const findings = yield* Effect.mapError(local.examine, failed)
        yield* print(json, findings, findings.map((finding) => ({ ...finding })), "")
        if (findings.some((finding) => finding.state === "bad")) {
          return yield* new CommandFailed({ detail: "Something needs care; see above.", exitCode: 1 })
        }
      }),
  ).pipe(
    Command.withDescription("Tell what this machine and the data folder are fit for"),
    Command.withExamples([{
      command: "nightjar doctor --reindex",
      description: "Bring cameras, recordings and the index back from the disks after the database was lost",
    }]),
  )
  return Command.make("nightjar").pipe(
    Command.withDescription("A network video recorder that stands in for itself"),
    Command.withSubcommands([start, config, status, cameras, recordings, replayUrl, rotateKey, doctor]),
  )
}
