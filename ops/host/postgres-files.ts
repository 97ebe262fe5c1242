/**
 * What the embedded PostgreSQL keeps in the node's data folder, and how it is made.
 *
 *     postgres/password   of the role `nightjar`, mode 0600
 *     postgres/port       on loopback
 *     postgres/log        bounded, see postgres.ts
 *     postgres/data/      the database; mode 0700, owned by the account that runs it; the unix socket is in it too
 *
 * Invariants
 * 1. `data` appears whole or not at all: it is made as `data.new-…` and renamed. Each try has a name of its own, as an initdb that
 *    a killed node left behind may still be writing to the earlier one.
 * 2. Only the role `nightjar` may log in, with its password (SCRAM-SHA-256, RFC 7677), to its own database; it is no superuser. The
 *    superuser has no way in but the single-user mode of somebody who owns the files.
 * 3. No folder above `data` need be open to the account: on Linux the programs get `data` as an inherited descriptor and see it
 *    as `/proc/self/fd/3`, so a node whose data lies in root's home works.
 */
import { Effect, Redacted } from "effect"
import { spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { chmod, chown, mkdtemp, open, readdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import type { Account } from "./postgres-account.ts"
import type { Binaries } from "./postgres-binaries.ts"
import { attempt, PostgresError } from "./postgres-error.ts"

export interface Layout {
  readonly folder: string
  readonly data: string
  readonly password: string
  readonly port: string
  readonly log: string
}

export const layoutOf = (dataFolder: string): Layout => {
  const folder = join(dataFolder, "postgres")
  return {
    folder,
    data: join(folder, "data"),
    password: join(folder, "password"),
    port: join(folder, "port"),
    log: join(folder, "log"),
  }
}

/** Nothing of the node's own environment reaches PostgreSQL: no secret, no stray `PG…` variable. */
export const environment = { LC_ALL: "C", TZ: "UTC", PATH: "/usr/local/bin:/usr/bin:/bin" }

/** How the programs are told where `data` is: a descriptor to inherit as number 3, and the path they see. */
export const dataAs = (
  account: Account | null,
  path: string,
): { readonly argument: string; readonly inherit: boolean } =>
  account !== null && process.platform === "linux" ?
    { argument: "/proc/self/fd/3", inherit: true } :
    { argument: path, inherit: false }

/** Runs a program to its end; fails with what it said on standard error, at most the last 2,000 characters. */
const runToEnd = (
  step: string,
  program: string,
  args: ReadonlyArray<string>,
  how: { readonly account: Account | null; readonly data: string; readonly input?: string },
): Effect.Effect<void, PostgresError> =>
  Effect.acquireUseRelease(
    attempt(step, () => open(how.data, "r")),
    (folder) =>
      Effect.callback<void, PostgresError>((resume) => {
        const child = spawn(program, args, {
          ...how.account,
          cwd: "/",
          env: environment,
          stdio: ["pipe", "ignore", "pipe", folder.fd],
        })
        let said = ""
        child.stderr!.setEncoding("utf8").on("data", (text: string) => said = (said + text).slice(-2000))
        child.once("error", (cause) => resume(Effect.fail(new PostgresError({ step, detail: cause.message }))))
        child.once("close", (code, signal) =>
          resume(
            code === 0 ?
              Effect.void :
              Effect.fail(new PostgresError({ step, detail: `ended with ${code ?? signal}: ${said.trim()}` })),
          ))
        child.stdin!.on("error", () => undefined).end(how.input ?? "")
        return Effect.sync(() => child.kill("SIGKILL"))
      }),
    (folder) => Effect.promise(() => folder.close()),
  )

const writeSecret = async (path: string, text: string): Promise<void> => {
  const draft = `${path}.new`
  const file = await open(draft, "w", 0o600)
  try {
    await file.chmod(0o600)
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(draft, path)
}

const readIfThere = (path: string): Promise<string | null> =>
  readFile(path, "utf8").catch((cause: NodeJS.ErrnoException) => {
    if (cause.code === "ENOENT") return null
    throw cause
  })

const loginRules = [
  "# Written by Nightjar at every start.",
  "host  nightjar nightjar 127.0.0.1/32 scram-sha-256",
  "local nightjar nightjar scram-sha-256",
  "",
].join("\n")

const makeData = (layout: Layout, binaries: Binaries, account: Account | null, password: string) =>
  Effect.gen(function*() {
    const draft = yield* attempt("make its folder", async () => {
      for (const name of await readdir(layout.folder)) {
        if (name.startsWith("data.new-")) await rm(join(layout.folder, name), { recursive: true, force: true })
      }
      const made = await mkdtemp(join(layout.folder, "data.new-"))
      if (account !== null) await chown(made, account.uid, account.gid)
      return made
    })
    const { argument } = dataAs(account, draft)
    yield* runToEnd("initdb", binaries.initdb, [
      "-D",
      argument,
      "-U",
      "postgres",
      "--auth=reject",
      "-E",
      "UTF8",
      "--locale-provider=builtin",
      "--builtin-locale=C.UTF-8",
      "--locale=C",
      "--no-instructions",
    ], { account, data: draft })
    yield* singleUser(binaries, account, draft, [
      `CREATE ROLE nightjar LOGIN PASSWORD '${password}'`,
      "CREATE DATABASE nightjar OWNER nightjar",
    ])
    yield* attempt("put its data in place", () => rename(draft, layout.data))
  })

/** Statements as superuser, while no server runs; one a line. */
const singleUser = (binaries: Binaries, account: Account | null, data: string, statements: ReadonlyArray<string>) =>
  runToEnd("prepare its database", binaries.postgres, [
    "--single",
    "-j",
    "-D",
    dataAs(account, data).argument,
    "-c",
    "exit_on_error=on",
    "-c",
    "log_checkpoints=off",
    "postgres",
  ], { account, data, input: statements.map((statement) => `${statement};\n\n`).join("") })

/**
 * Makes what is missing and checks what is there. Only while no server runs on `data`.
 * @returns The password of the role `nightjar`.
 */
export const prepareFiles = (
  layout: Layout,
  binaries: Binaries,
  account: Account | null,
): Effect.Effect<Redacted.Redacted, PostgresError> =>
  Effect.gen(function*() {
    const version = yield* attempt("look at its data", () => readIfThere(join(layout.data, "PG_VERSION")))
    const kept = yield* readPassword(layout)
    const password = kept ?? Redacted.make(randomBytes(24).toString("base64url"))
    const plain = Redacted.value(password)
    if (version === null) {
      yield* makeData(layout, binaries, account, plain)
    } else if (version.trim() !== binaries.major) {
      return yield* new PostgresError({
        step: "look at its data",
        detail: `${layout.data} is of version ${version.trim()}, this release brings ${binaries.major}`,
      })
    } else if (kept === null) {
      yield* singleUser(binaries, account, layout.data, [`ALTER ROLE nightjar PASSWORD '${plain}'`])
    }
    // Written last: if this process dies before, the next start finds no password and gives the role another one.
    yield* attempt("keep its password", () =>
      kept === null ? writeSecret(layout.password, plain) : chmod(layout.password, 0o600))
    yield* attempt("write its login rules", () =>
      writeFile(join(layout.data, "pg_hba.conf"), loginRules))
    return password
  })

/** The kept password, `null` if there is none. */
export const readPassword = (layout: Layout): Effect.Effect<Redacted.Redacted | null, PostgresError> =>
  attempt("read its password", () => readIfThere(layout.password)).pipe(
    Effect.map((text) => text === null || text.trim() === "" ? null : Redacted.make(text.trim())),
  )

/** The kept port, `null` if there is none. */
export const readPort = (layout: Layout): Effect.Effect<number | null, PostgresError> =>
  attempt("read its port", () => readIfThere(layout.port)).pipe(
    Effect.map((text) => text !== null && /^\d{1,5}\s*$/.test(text) ? Number(text) : null),
  )

/** Whether `port` can be listened on at loopback; 0 asks for any. Answers the port, `null` if it is taken. */
const tryPort = (port: number): Effect.Effect<number | null> =>
  Effect.callback((resume) => {
    const server = createServer()
    server.once("error", () => resume(Effect.succeed(null)))
    server.listen(port, "127.0.0.1", () => {
      const address = server.address()
      server.close(() => resume(Effect.succeed(address !== null && typeof address === "object" ? address.port : null)))
    })
  })

/** The kept port if it is free, otherwise a free one, which is kept from now on. */
export const choosePort = (layout: Layout): Effect.Effect<number, PostgresError> =>
  Effect.gen(function*() {
    const kept = yield* readPort(layout)
    if (kept !== null && (yield* tryPort(kept)) !== null) return kept
    const free = yield* tryPort(0)
    if (free === null) {
      return yield* new PostgresError({ step: "choose a port", detail: "none can be listened on at 127.0.0.1" })
    }
    yield* attempt("keep its port", () => writeFile(layout.port, `${free}\n`, { mode: 0o600 }))
    return free
  })
