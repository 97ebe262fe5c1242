/**
 * The embedded PostgreSQL of a node: made at first start, adopted or restarted after a crash of the node, restarted when it dies,
 * stopped with the node.
 *
 * Invariants
 * 1. Whatever goes wrong here is told by `state` and the log and tried again (0.2 to 10 s apart): it stops nothing else.
 * 2. At most one postmaster runs on the data. One that a killed node left behind is adopted if it was started as we would start
 *    it now, otherwise stopped first.
 * 3. The port is chosen once a process; a reconnecting pool always finds the server where it was.
 * 4. Its log is bounded: beyond {@link logLimit} bytes it becomes `log.1`, which it replaces.
 */
import {
  Clock,
  Context,
  Deferred,
  Effect,
  Layer,
  Random,
  Redacted,
  type Scope,
  type Stream,
  SubscriptionRef,
} from "effect"
import { copyFile, mkdir, stat, truncate } from "node:fs/promises"
import { accountFor } from "./postgres-account.ts"
import { findBinaries } from "./postgres-binaries.ts"
import { attempt, type PostgresError } from "./postgres-error.ts"
import { choosePort, type Layout, layoutOf, prepareFiles, readPassword, readPort } from "./postgres-files.ts"
import {
  awaitExit,
  awaitReady,
  findPostmaster,
  lastWords,
  type Postmaster,
  postmasterArguments,
  spawnPostmaster,
  startedAlike,
  stopPostmaster,
} from "./postgres-process.ts"

export interface PostgresOptions {
  /** The node's data folder; exists. */
  readonly dataFolder: string
  /** Where a root node may keep a copy of the programs that other accounts can read. */
  readonly copies?: string
}

export type PostgresState =
  | { readonly _tag: "Starting" }
  | { readonly _tag: "Running"; readonly pid: number; readonly port: number; readonly adopted: boolean }
  | { readonly _tag: "Failed"; readonly reason: string }

/** The server this node runs for itself. */
export class EmbeddedPostgres extends Context.Service<EmbeddedPostgres, {
  /** How to reach it; waits for its first start. */
  readonly url: Effect.Effect<Redacted.Redacted>
  readonly state: Effect.Effect<PostgresState>
  readonly changes: Stream.Stream<PostgresState>
}>()("nightjar/ops/EmbeddedPostgres") {}

/** 4 MiB hold weeks of warnings. */
const logLimit = 4 << 20

/** The second and later failures in a row wait longer, up to this. */
const longestWaitMs = 10_000
/** A server that ran this long counts as healthy again. */
const longRunMs = 60_000

interface Plan {
  /** The server that runs already, or how to start one. */
  readonly postmaster: Effect.Effect<Postmaster, PostgresError>
  readonly port: number
  readonly password: Redacted.Redacted
}

/** Makes what is missing, and finds out whether a server runs already. Starts nothing; may be interrupted anywhere. */
const plan = (options: PostgresOptions, layout: Layout, fixedPort: number | null): Effect.Effect<Plan, PostgresError> =>
  Effect.gen(function*() {
    yield* attempt("make its folder", () => mkdir(layout.folder, { recursive: true, mode: 0o711 }))
    const account = yield* accountFor(layout.data)
    const binaries = yield* findBinaries(account, options.copies ?? "/var/cache/nightjar")
    const running = yield* findPostmaster(layout)
    if (running !== null) {
      const left: Postmaster = { pid: running.pid, child: null }
      const password = yield* readPassword(layout)
      const port = fixedPort ?? (yield* readPort(layout))
      if (
        password !== null && port !== null &&
        (yield* startedAlike(layout, binaries, postmasterArguments(account, layout, port)))
      ) {
        return { postmaster: Effect.succeed(left), port, password }
      }
      yield* Effect.logInfo(
        `Stopping a PostgreSQL that was left running (process ${left.pid}) to start it as it should be`,
      )
      yield* stopPostmaster(left, layout)
    }
    const password = yield* prepareFiles(layout, binaries, account)
    const port = fixedPort ?? (yield* choosePort(layout))
    return {
      postmaster: spawnPostmaster(binaries, account, layout, postmasterArguments(account, layout, port)),
      port,
      password,
    }
  })

const boundLog = (layout: Layout): Effect.Effect<void> =>
  attempt("bound its log", async () => {
    const { size } = await stat(layout.log)
    if (size <= logLimit) return
    // The server appends to an open file: it is copied and emptied in place, not renamed.
    await copyFile(layout.log, `${layout.log}.1`)
    await truncate(layout.log)
  }).pipe(Effect.ignore)

const make = (options: PostgresOptions): Effect.Effect<EmbeddedPostgres["Service"], never, Scope.Scope> =>
  Effect.gen(function*() {
    const layout = layoutOf(options.dataFolder)
    const state = yield* SubscriptionRef.make<PostgresState>({ _tag: "Starting" })
    const url = yield* Deferred.make<Redacted.Redacted>()
    let fixedPort: number | null = null

    const serving = ({ port, password }: Plan, postmaster: Postmaster) =>
      Effect.gen(function*() {
        yield* awaitReady(postmaster, layout)
        fixedPort = port
        const adopted = postmaster.child === null
        yield* Effect.logInfo(`PostgreSQL ${adopted ? "adopted" : "started"} (process ${postmaster.pid}, port ${port})`)
        yield* SubscriptionRef.set(state, { _tag: "Running", pid: postmaster.pid, port, adopted })
        yield* Deferred.succeed(
          url,
          Redacted.make(`postgres://nightjar:${Redacted.value(password)}@127.0.0.1:${port}/nightjar`),
        )
        yield* Effect.raceFirst(
          awaitExit(postmaster),
          Effect.forever(Effect.andThen(Effect.sleep("1 minute"), boundLog(layout))),
        )
        return `it ended: ${yield* lastWords(layout)}`
      })

    /** One life of the server, from its start to its end, and why it ended; it is stopped if we are interrupted. */
    const serve = Effect.suspend(() => plan(options, layout, fixedPort)).pipe(
      Effect.flatMap((planned) =>
        Effect.acquireUseRelease(planned.postmaster, (postmaster) =>
          serving(planned, postmaster), (postmaster) =>
          stopPostmaster(postmaster, layout))
      ),
      Effect.catch((error) =>
        Effect.succeed(error.message)
      ),
    )

    const supervise = Effect.gen(function*() {
      let failures = 0
      while (true) {
        yield* SubscriptionRef.set(state, { _tag: "Starting" })
        const since = yield* Clock.currentTimeMillis
        yield* boundLog(layout)
        const reason = yield* serve
        failures = (yield* Clock.currentTimeMillis) - since >= longRunMs ? 1 : failures + 1
        const wait = Math.min(longestWaitMs, 200 * 2 ** (failures - 1)) * (0.75 + (yield* Random.next) / 4)
        yield* Effect.logWarning(`PostgreSQL is away, next try in ${Math.round(wait)} ms`, reason)
        yield* SubscriptionRef.set(state, { _tag: "Failed", reason })
        yield* Effect.sleep(wait)
      }
    })

    yield* Effect.forkScoped(supervise)
    return EmbeddedPostgres.of({
      url: Deferred.await(url),
      state: SubscriptionRef.get(state),
      changes: SubscriptionRef.changes(state),
    })
  }).pipe(Effect.annotateLogs({ module: "postgres" }))

/** Never fails and returns at once; the server comes up beside. */
export const layer = (options: PostgresOptions): Layer.Layer<EmbeddedPostgres> =>
  Layer.effect(EmbeddedPostgres, make(options))
