/** A server on a socket with the auth service and a real PostgreSQL behind it, for tests. */
import { makePasswords, Passwords } from "#actors/behaviour/auth-passwords.ts"
import { AccessTokensLive } from "#actors/behaviour/auth-tokens.ts"
import { trustLayer } from "#actors/behaviour/auth-trust.ts"
import { authLayer } from "#actors/behaviour/auth.ts"
import { idempotencyLayer } from "#actors/behaviour/http.ts"
import * as RoleReaches from "#actors/behaviour/permission-reach.ts"
import { AccessTokens, Auth } from "#actors/protocol/auth.ts"
import { Events } from "#actors/protocol/event.ts"
import { Idempotency } from "#actors/protocol/http.ts"
import { Late, lateLayer } from "#actors/protocol/late.ts"
import * as Vaults from "#cluster/vault.ts"
import { serverLayer } from "#http/server.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import type { EventDraft } from "#schema/event.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Exit, Layer, Logger, Redacted, Scope } from "effect"
import { HttpServer } from "effect/http"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { postgresLayer } from "./harness/postgres.ts"
import { serverOptions, testHealth, unaskedServices } from "./http-fixtures.ts"

export const adminPassword = "correct horse battery"

export const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-auth-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** The half that needs the database, and how to end it. */
export const startControl = Effect.fnUntraced(function*(options: {
  readonly url: Redacted.Redacted
  readonly vaultFolder: string
  readonly tokens: AccessTokens["Service"]
  readonly adminPassword: Redacted.Redacted | null
}) {
  const first: Array<{ readonly username: string; readonly password: string | null }> = []
  const events: Array<EventDraft> = []
  const work = { hashes: 0, checks: 0 }
  const counted = Layer.effect(
    Passwords,
    Effect.map(makePasswords, ({ hash, verify }) => ({
      hash: (password) => Effect.andThen(Effect.sync(() => void work.hashes++), hash(password)),
      verify: (password, known) => Effect.andThen(Effect.sync(() => void work.checks++), verify(password, known)),
    })),
  )
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const services = Layer.mergeAll(
    authLayer({
      adminPassword: options.adminPassword,
      onFirstStart: ({ password, username }) =>
        Effect.sync(() => {
          first.push({ username, password: password === null ? null : Redacted.value(password) })
        }),
    }),
    idempotencyLayer,
  ).pipe(
    Layer.provide([trustLayer(), RoleReaches.layer, counted]),
    Layer.provide(Layer.succeed(Events, { publish: (draft) => Effect.sync(() => void events.push(draft)) })),
    Layer.provideMerge(Database.layer({ url: options.url, applicationName: "test", maxConnections: 4 })),
    Layer.provide(Layer.succeed(AccessTokens, options.tokens)),
    Layer.provide(Vaults.layer({ dataFolder: options.vaultFolder, masterKey: null })),
    Layer.provide(NodeFileSystem.layer),
  )
  const context = yield* Layer.buildWithScope(services, scope)
  return { context, first, events, work, end: Scope.close(scope, Exit.void) }
})

/** A node's HTTP without anything behind it yet. */
export const startHttp = Effect.gen(function*() {
  const services = serverLayer({ ...serverOptions, maxBodyBytes: 1024 }).pipe(
    Layer.provide([lateLayer(Auth), lateLayer(Idempotency), unaskedServices, testHealth]),
    Layer.provideMerge(Layer.mergeAll(Late.layer, AccessTokensLive)),
    Layer.provideMerge(NodeHttpServer.layerHttpServices),
  )
  const context = yield* Layer.build(services)
  const { address } = Context.get(context, HttpServer.HttpServer)
  const port = "port" in address ? address.port : 0
  return {
    base: `http://127.0.0.1:${port}`,
    late: Context.get(context, Late),
    tokens: Context.get(context, AccessTokens),
  }
})

export interface Answer {
  readonly status: number
  readonly headers: Headers
  // The tests look at members by name; each states what it expects of them.
  readonly body: Record<string, unknown>
}

export const caller =
  (base: string) =>
  (
    method: string,
    path: string,
    options: { readonly token?: unknown; readonly body?: unknown; readonly headers?: Record<string, string> } = {},
  ) =>
    Effect.promise(async (): Promise<Answer> => {
      const headers = new Headers({ "content-type": "application/json", ...options.headers })
      if (typeof options.token === "string") headers.set("authorization", `Bearer ${options.token}`)
      const response = await fetch(`${base}${path}`, {
        method,
        headers,
        ...(options.body === undefined ? {} : { body: JSON.stringify(options.body) }),
      })
      const text = await response.text()
      const json = (response.headers.get("content-type") ?? "").includes("json")
      return {
        status: response.status,
        headers: response.headers,
        body: json ? JSON.parse(text) as Answer["body"] : {},
      }
    })

export const auth = "/auth/api/v1/auth"

let serverUrl = Redacted.make("")

/** One PostgreSQL for the tests of the calling file: there before the first, gone after the last. */
export const usePostgres = () => {
  const shared = mkdtempSync(join(tmpdir(), "nightjar-auth-server-"))
  const scope = Effect.runSync(Scope.make())

  beforeAll(async () => {
    const started = Effect.gen(function*() {
      const server = yield* Layer.build(postgresLayer({ dataFolder: shared, copies: join(shared, "copies") }))
      return yield* Context.get(server, EmbeddedPostgres).url
    })
    serverUrl = await Effect.runPromise(Scope.provide(started, scope).pipe(Effect.provide(Logger.layer([]))))
  }, 60_000)

  afterAll(async () => {
    await Effect.runPromise(Scope.close(scope, Exit.void))
    rmSync(shared, { recursive: true, force: true })
  }, 60_000)
}

/** The database, empty: tests of this file follow each other. */
export const emptyDatabase = Effect.gen(function*() {
  const url = serverUrl
  const empty = Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => Effect.andThen(sql`DROP SCHEMA public CASCADE`, sql`CREATE SCHEMA public`),
  )
  yield* Effect.provide(empty, Database.layerClient({ url, applicationName: "test", maxConnections: 1 }))
  return url
})

/** Everything running, with `admin`. */
export const node = Effect.gen(function*() {
  const data = yield* folder
  const url = yield* emptyDatabase
  const http = yield* startHttp
  const control = yield* startControl({
    url,
    vaultFolder: data,
    tokens: http.tokens,
    adminPassword: Redacted.make(adminPassword),
  })
  const scope = yield* Scope.make()
  yield* Scope.provide(http.late.publish(control.context), scope)
  const call = caller(http.base)
  const login = (username = "admin", password = adminPassword) =>
    call("POST", `${auth}/login`, { body: { username, password } })
  const sql = Context.get(control.context, SqlClient.SqlClient)
  return { ...http, call, login, sql, url, data, control, unpublish: Scope.close(scope, Exit.void) }
})
