/**
 * Every setting of a node: name, meaning, default, and how its text is read (those of its doors: `config-doors.ts`). The only file that
 * reads the environment.
 *
 * Invariants
 * 1. A setting is an environment variable whose name begins with `NIGHTJAR_`; an unknown one of that prefix is an error, so a
 *    misspelt name is noticed.
 * 2. A bad value stops the start with one line that names the variable; the value of a secret is never in it.
 * 3. Layers take typed options made from {@link Settings}; none of them reads the environment.
 */
import type { IceServer } from "#media/webrtc.ts"
import { isLoopback } from "#schema/auth-network.ts"
import { Effect, Redacted, Result, Schema } from "effect"
import { hostname } from "node:os"
import { join } from "node:path"
import { doors } from "./config-doors.ts"
import {
  absolute,
  adminPassword,
  anything,
  contact,
  demoDoor,
  filled,
  folders,
  type FolderSetting,
  gib,
  integer,
  masterKey,
  optionalPath,
  postgresUrl,
  secretOf,
  serverUrl,
  type Setting,
  setting,
  word,
} from "./config-readers.ts"

const settings = {
  dataDir: setting("NIGHTJAR_DATA_DIR", ".nightjar", filled("a folder"), "Folder of everything this node keeps"),
  nodeName: setting("NIGHTJAR_NODE_NAME", hostname(), filled("a name"), "Name of this node that people see"),
  ...doors,
  adminPassword: setting(
    "NIGHTJAR_ADMIN_PASSWORD",
    "",
    secretOf(adminPassword),
    "Password of the user admin, made at the first start; random and printed once if empty",
    true,
  ),
  databaseUrl: setting(
    "NIGHTJAR_DATABASE_URL",
    "",
    secretOf(postgresUrl),
    "PostgreSQL 15 or later to use; the embedded one in the data folder if empty",
    true,
  ),
  masterKey: setting(
    "NIGHTJAR_MASTER_KEY",
    "",
    secretOf(masterKey),
    "Key that seals secrets at rest: 32 bytes in base64; a file of the data folder if empty",
    true,
  ),
  licenseKeys: setting(
    "NIGHTJAR_LICENSE_KEYS",
    "",
    optionalPath,
    "File with the public keys of who issues licences (a JWK set); none can be installed if empty, and nothing is restricted",
  ),
  licenseServer: setting(
    "NIGHTJAR_LICENSE_SERVER",
    "",
    serverUrl,
    "Address of the licence server for online activation and licence keys: https, or http on this machine",
  ),
  pushContact: setting(
    "NIGHTJAR_PUSH_CONTACT",
    "mailto:nightjar@example.com",
    contact,
    "Whom push services of browsers may write to about this installation: mailto: or https:",
  ),
  storage: setting(
    "NIGHTJAR_STORAGE",
    "",
    folders,
    "Folders of footage: name=/path[:GiB to keep free], separated by commas; footage/ in the data folder if empty",
  ),
  clusterHost: setting(
    "NIGHTJAR_CLUSTER_HOST",
    "127.0.0.1",
    filled("an address"),
    "Address the nodes of one cluster talk to each other on, over TLS",
  ),
  clusterPort: setting(
    "NIGHTJAR_CLUSTER_PORT",
    "0",
    integer(0, 65_535, ""),
    "Port of the cluster transport; 0 takes a free one",
  ),
  clusterSecret: setting(
    "NIGHTJAR_CLUSTER_SECRET",
    "",
    secretOf(masterKey),
    "32 bytes in base64 that make every node which has them a member of the cluster; NIGHTJAR_MASTER_KEY if empty",
    true,
  ),
  busPort: setting(
    "NIGHTJAR_BUS_PORT",
    "0",
    integer(0, 65_534, ""),
    "First of two ports, the same on every node of a cluster, for hints and signs of life (nanomsg); 0: without",
  ),
  fileMinutes: setting("NIGHTJAR_FILE_MINUTES", "10", integer(1, 60, "minutes"), "Length of one file of footage"),
  syncIntervalMs: setting(
    "NIGHTJAR_SYNC_INTERVAL_MS",
    "2000",
    integer(100, 60_000, "milliseconds"),
    "Footage a power cut may cost beyond the last fragment",
  ),
  drainMs: setting(
    "NIGHTJAR_DRAIN_MS",
    "60",
    integer(0, 60, "milliseconds"),
    "How long received packets may rest before they are read; saves CPU",
  ),
  writeQueueMiB: setting(
    "NIGHTJAR_WRITE_QUEUE_MIB",
    "16",
    integer(1, 1024, "MiB"),
    "Most footage of one stream that waits for a slow disk",
  ),
  recordBackMiB: setting(
    "NIGHTJAR_RECORD_BACK_MIB",
    "0",
    integer(0, 1023, "MiB a second"),
    "Most that leaves this node for footage on its way home; 0: as fast as it goes",
  ),
  ptzHoldSeconds: setting(
    "NIGHTJAR_PTZ_HOLD_SECONDS",
    "10",
    // An entity that nobody asks is forgotten after ten minutes, and who held it with it.
    integer(1, 600, "seconds"),
    "How long a camera is kept for whoever moved it last",
  ),
  eventDays: setting("NIGHTJAR_EVENT_DAYS", "90", integer(1, 3650, "days"), "How long events are kept"),
  eventCount: setting(
    "NIGHTJAR_EVENT_COUNT",
    "1000000",
    integer(1_000, 100_000_000, "events"),
    "How many events are kept at most; the oldest go first",
  ),
  requestTimeoutMs: setting(
    "NIGHTJAR_REQUEST_TIMEOUT_MS",
    "30000",
    integer(100, 600_000, "milliseconds"),
    "Longest an HTTP request may take unless it streams",
  ),
  maxBodyBytes: setting(
    "NIGHTJAR_MAX_BODY_BYTES",
    "1048576",
    integer(1024, 64 << 20, "bytes"),
    "Largest JSON body of a request",
  ),
  demoDoor: setting(
    "NIGHTJAR_DEMO_DOOR",
    "",
    secretOf(demoDoor),
    "Where a demo of several nodes lets its nodes be killed and brought back; the demo sets it, nobody else",
    true,
  ),
  url: setting(
    "NIGHTJAR_URL",
    "",
    (text) => text === "" || URL.canParse(text) ? Result.succeed(text) : Result.fail("expected http://host:port"),
    "Node that the commands of this program talk to; the one of NIGHTJAR_HTTP_HOST and NIGHTJAR_HTTP_PORT if empty",
  ),
  user: setting("NIGHTJAR_USER", "admin", filled("a user name"), "User that the commands of this program sign in as"),
  ca: setting(
    "NIGHTJAR_CA",
    "",
    anything,
    "PEM file that the commands trust besides the system's; they know the certificate of a node on this machine",
  ),
  password: setting(
    "NIGHTJAR_PASSWORD",
    "",
    secretOf(() => null),
    "Password the commands sign in with; NIGHTJAR_ADMIN_PASSWORD, or asked for, if empty",
    true,
  ),
  logLevel: setting(
    "NIGHTJAR_LOG_LEVEL",
    "info",
    word("trace", "debug", "info", "warn", "error"),
    "Least severe message that is logged",
  ),
  logFormat: setting("NIGHTJAR_LOG_FORMAT", "text", word("text", "json"), "Form of log lines"),
}

type Values = { readonly [K in keyof typeof settings]: (typeof settings)[K] extends Setting<infer A> ? A : never }

/** The settings in force; paths are absolute, `storage` names at least one folder. */
export type Settings = Values

/** Whether this node serves HTTPS. */
export const servesTls = ({ httpHost, tls }: Pick<Settings, "httpHost" | "tls">): boolean =>
  tls === "on" || (tls === "auto" && httpHost !== "localhost" && !isLoopback(httpHost))

/** Where a program on this machine reaches the node. */
export const localUrl = (settings: Pick<Settings, "httpHost" | "tls">, port: number): string => {
  const host = settings.httpHost === "0.0.0.0" ? "127.0.0.1" : settings.httpHost === "::" ? "::1" : settings.httpHost
  return `${servesTls(settings) ? "https" : "http"}://${host.includes(":") ? `[${host}]` : host}:${port}`
}

/** A setting that cannot be used. */
export class BadSetting extends Schema.TaggedError<BadSetting>()("BadSetting", {
  variable: Schema.String,
  problem: Schema.String,
}) {
  override get message(): string {
    return `${this.variable}: ${this.problem}`
  }
}

const settled = (values: Values): Settings => {
  const dataDir = absolute(values.dataDir)
  const storage = values.storage.length > 0 ?
    values.storage.map((folder) => ({ ...folder, path: absolute(folder.path) })) :
    [{ name: "main", path: join(dataDir, "footage"), floorBytes: gib }]
  return {
    ...values,
    dataDir,
    storage,
    tlsCertificate: values.tlsCertificate === "" ? "" : absolute(values.tlsCertificate),
    tlsKey: values.tlsKey === "" ? "" : absolute(values.tlsKey),
  }
}

/**
 * Reads all settings from an environment (the process's own if left out).
 * @returns Settings, or {@link BadSetting} for the first bad variable.
 */
export const readSettings = (
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Effect.Effect<Settings, BadSetting> =>
  Effect.gen(function*() {
    const known = new Set<string>(Object.values(settings).map((one) => one.name))
    for (const name of Object.keys(environment)) {
      if (name.startsWith("NIGHTJAR_") && !known.has(name)) {
        return yield* new BadSetting({
          variable: name,
          problem: "there is no such setting; nightjar config lists them",
        })
      }
    }
    const values: Record<string, unknown> = {}
    for (const [key, one] of Object.entries(settings)) {
      const read: Result.Result<unknown, string> = one.read(environment[one.name] ?? one.fallback)
      if (Result.isFailure(read)) return yield* new BadSetting({ variable: one.name, problem: read.failure })
      values[key] = read.success
    }
    if ((values["tlsCertificate"] === "") !== (values["tlsKey"] === "")) {
      return yield* new BadSetting({
        variable: values["tlsKey"] === "" ? "NIGHTJAR_TLS_KEY" : "NIGHTJAR_TLS_CERT",
        problem: "certificate and private key belong together; give both or neither",
      })
    }
    return settled(values as Values)
  })

/** One line of `nightjar config`; a secret's value is `set` or empty. */
export interface SettingLine {
  readonly name: string
  readonly value: string
  readonly fallback: string
  readonly source: "environment" | "default"
  readonly meaning: string
}

const shown = (value: unknown): string => {
  if (value === null) return ""
  if (Redacted.isRedacted(value)) return "set"
  if (!Array.isArray(value)) return String(value)
  const parts = value as ReadonlyArray<FolderSetting | IceServer | string | number>
  return parts.map((one) => {
    if (typeof one !== "object") return String(one)
    return "url" in one ? one.url : `${one.name}=${one.path}:${one.floorBytes / gib}`
  }).join(typeof parts[0] === "number" ? "-" : ",")
}

/** Every setting with its meaning, default and the value in force. */
export const describeSettings = (
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Effect.Effect<ReadonlyArray<SettingLine>, BadSetting> =>
  Effect.map(readSettings(environment), (inForce) =>
    Object.entries(settings).map(([key, one]) => ({
      name: one.name,
      value: shown(inForce[key as keyof Settings]),
      fallback: one.fallback,
      source: environment[one.name] === undefined ? "default" as const : "environment" as const,
      meaning: one.meaning,
    })))

/** The environment of a process that the product starts: this one's, with some settings of its own. */
export const childEnvironment = (own: Readonly<Record<string, string>>): Record<string, string | undefined> => ({
  ...process.env,
  ...own,
})
