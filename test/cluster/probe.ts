/** Starts nodes of `probe-node.ts` and talks to them. */
import { Effect, Schedule } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { createInterface } from "node:readline"

export const temporaryFolder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-test-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

export interface Reply {
  readonly value?: unknown
  readonly error?: string
}

export interface ProbeNode {
  readonly process: ChildProcess
  /** What it logged. */
  readonly said: () => string
  readonly ask: (request: Readonly<Record<string, unknown>>) => Effect.Effect<Reply>
  /** Sends a signal and waits for the end; answers the exit code. */
  readonly end: (signal: NodeJS.Signals) => Effect.Effect<number | null>
}

const root = new URL("../..", import.meta.url).pathname

/** A node process; killed with the scope. */
export const startNode = (options: {
  readonly dataFolder: string
  readonly databaseUrl: string | null
  readonly name: string
  readonly joinSecret?: string
}) =>
  Effect.acquireRelease(
    Effect.sync((): ProbeNode => {
      const child = spawn(process.execPath, [join(root, "test/cluster/probe-node.ts"), JSON.stringify(options)], {
        cwd: root,
        stdio: ["pipe", "pipe", "pipe"],
      })
      let said = ""
      let next = 0
      const waiting = new Map<number, (reply: Reply) => void>()
      child.stderr.on("data", (text) => said += text)
      createInterface({ input: child.stdout }).on("line", (line) => {
        if (!line.startsWith("{")) {
          said += `${line}\n`
          return
        }
        const reply = JSON.parse(line) as Reply & { readonly id: number }
        waiting.get(reply.id)?.(reply)
        waiting.delete(reply.id)
      })
      const ended = new Promise<number | null>((resolve) => child.once("exit", (code) => resolve(code)))
      return {
        process: child,
        said: () => said,
        ask: (request) =>
          Effect.callback((resume) => {
            const id = next++
            waiting.set(id, (reply) => resume(Effect.succeed(reply)))
            child.stdin.write(`${JSON.stringify({ ...request, id })}\n`)
          }),
        end: (signal) =>
          Effect.promise(() => {
            child.kill(signal)
            return ended
          }),
      }
    }),
    (node) => node.process.exitCode === null && node.process.signalCode === null ? node.end("SIGKILL") : Effect.void,
  )

/** Repeats `effect` every 50 ms until it holds, at most about 60 s. */
export const eventually = <A, E, R>(
  what: string,
  effect: Effect.Effect<A, E, R>,
  holds: (value: A) => boolean,
): Effect.Effect<A, E | Error, R> =>
  effect.pipe(
    Effect.repeat({ schedule: Schedule.spaced("50 millis"), until: holds }),
    Effect.timeoutOrElse({ duration: "60 seconds", orElse: () => Effect.fail(new Error(`never came: ${what}`)) }),
  )
