/**
 * Events made as a node makes them: through the door every slice tells through, its queue on disk, and the function that keeps
 * them in PostgreSQL; without the rest of a node.
 */
import { bring, EventSpool, layer as eventsLayer } from "#actors/behaviour/event.ts"
import { Events } from "#actors/protocol/event.ts"
import { EventStore } from "#actors/store/event.ts"
import * as Identity from "#cluster/identity.ts"
import * as Vaults from "#cluster/vault.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import type { EventDraft } from "#schema/event.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { Context, Effect, Exit, Layer, Logger, Redacted, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { postgresLayer } from "./postgres.ts"

/** A PostgreSQL of the test's own; `end` stops it. */
export const startPostgres = async (folder: string) => {
  const scope = await Effect.runPromise(Scope.make())
  const context = await Layer.buildWithScope(
    postgresLayer({ dataFolder: folder, copies: join(folder, "copies") }),
    scope,
  ).pipe(Effect.provide(Logger.layer([])), Effect.runPromise)
  const url = await Effect.runPromise(Context.get(context, EmbeddedPostgres).url)
  return { url: Redacted.value(url), end: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
}

export interface EventMaker {
  /** Returns when they are on disk. */
  readonly tell: (drafts: ReadonlyArray<EventDraft>) => Promise<void>
  /** Ids of the whole log, in the order of its positions. */
  readonly log: () => Promise<ReadonlyArray<string>>
  readonly sql: <A extends object>(query: (sql: SqlClient.SqlClient) => Effect.Effect<A, unknown>) => Promise<A>
  readonly end: () => Promise<void>
}

export const startMaker = async (folder: string, url: string): Promise<EventMaker> => {
  mkdirSync(folder, { recursive: true })
  const scope = await Effect.runPromise(Scope.make())
  const bringing = Layer.effectDiscard(Effect.gen(function*() {
    const [spool, store] = yield* Effect.all([EventSpool, EventStore])
    yield* Effect.forkScoped(bring(spool, store.keep))
  }))
  const context = await Layer.buildWithScope(
    bringing.pipe(
      Layer.provideMerge(EventStore.layer),
      Layer.provideMerge(Database.layer({ url: Redacted.make(url), applicationName: "maker", maxConnections: 3 })),
      Layer.provideMerge(eventsLayer(join(folder, "events"))),
      Layer.provideMerge(Identity.layer({ dataFolder: folder })),
      Layer.provideMerge(Vaults.layer({ dataFolder: folder, masterKey: null })),
      Layer.provide(NodeFileSystem.layer),
    ),
    scope,
  ).pipe(Effect.provide(Logger.layer([])), Effect.runPromise)
  const events = Context.get(context, Events)
  const client = Context.get(context, SqlClient.SqlClient)
  return {
    tell: (drafts) =>
      Effect.runPromise(Effect.forEach(drafts, events.publish, { concurrency: "unbounded", discard: true })),
    log: () =>
      Effect.runPromise(
        Effect.map(client<{ readonly id: string }>`SELECT id FROM event ORDER BY position`, (rows) =>
          rows.map(({ id }) =>
            id
          )),
      ),
    sql: (query) => Effect.runPromise(Effect.orDie(query(client))),
    end: () => Effect.runPromise(Scope.close(scope, Exit.void)),
  }
}

const words = ["a door slammed", "Ünïcödé 防犯カメラ", "\"quoted\" \\ and\nbroken", "x".repeat(300), ""]

/** Facts of several types and sizes. */
export const madeUp = (number: number): EventDraft =>
  number % 3 === 0 ?
    {
      type: "user.signin.failed",
      subject: `user-${number}`,
      resource: [],
      data: { username: `user-${number}`, address: words[number % words.length]! },
    } :
    {
      type: number % 3 === 1 ? "storage.folder.slowed" : "storage.folder.recovered",
      subject: `folder-${number}`,
      resource: [],
      data: { name: String(number), path: "/disk", state: "slow", detail: words[number % words.length]! },
    }
