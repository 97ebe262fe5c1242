/**
 * How the texts of settings become values (`config.ts` has their names and meanings).
 *
 * Invariants
 * 1. What is told of a bad value never has a secret in it.
 */
import type { IceServer } from "#media/webrtc.ts"
import { networkOf } from "#schema/auth-network.ts"
import { Redacted, Result, Schema } from "effect"
import { isAbsolute, resolve } from "node:path"

/** How a text becomes a value, or why it does not. */
export type Reader<A> = (text: string) => Result.Result<A, string>

/** A setting: an environment variable and what is made of it. */
export interface Setting<A> {
  readonly name: `NIGHTJAR_${string}`
  readonly meaning: string
  /** Text of the default, as it would stand in the environment. */
  readonly fallback: string
  readonly read: Reader<A>
  readonly secret: boolean
}

export const setting = <A>(
  name: Setting<A>["name"],
  fallback: string,
  read: Reader<A>,
  meaning: string,
  secret = false,
): Setting<A> => ({ name, fallback, read, meaning, secret })

const fits = <A>(schema: Schema.Decoder<A>, expected: string): Reader<A> => (text) =>
  Result.mapError(Schema.decodeUnknownResult(schema)(text), () => `expected ${expected}`)

export const integer = (minimum: number, maximum: number, unit: string): Reader<number> => (text) => {
  const value = /^-?\d+$/.test(text) ? Number(text) : Number.NaN
  return value >= minimum && value <= maximum ?
    Result.succeed(value) :
    Result.fail(`expected a whole number from ${minimum} to ${maximum}${unit === "" ? "" : ` (${unit})`}`)
}

export const word = <const L extends ReadonlyArray<string>>(...words: L): Reader<L[number]> =>
  fits(Schema.Literals(words), `one of ${words.join(", ")}`)

export const filled = (expected: string): Reader<string> => (text) =>
  text.trim() === "" ? Result.fail(`expected ${expected}`) : Result.succeed(text)

export const secretOf = (check: (text: string) => string | null): Reader<Redacted.Redacted | null> => (text) => {
  if (text === "") return Result.succeed(null)
  const problem = check(text)
  return problem === null ? Result.succeed(Redacted.make(text)) : Result.fail(problem)
}

export const postgresUrl = (text: string): string | null =>
  URL.canParse(text) && /^postgres(ql)?:$/.test(new URL(text).protocol) ?
    null :
    "expected postgres://user:password@host:port/database"

export const absolute = (path: string): string => isAbsolute(path) ? path : resolve(path)

export const optionalPath: Reader<string | null> = (text) =>
  Result.succeed(text.trim() === "" ? null : absolute(text.trim()))

/** `https:`, or `http:` to this machine, where nobody listens in between. */
export const serverUrl: Reader<string | null> = (text) => {
  if (text === "") return Result.succeed(null)
  const url = URL.canParse(text) ? new URL(text) : null
  const loopback = url !== null && /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/.test(url.hostname)
  const secure = url?.protocol === "https:" || (url?.protocol === "http:" && loopback)
  return url !== null && secure && url.username === "" && url.search === "" && url.hash === "" ?
    Result.succeed(url.href) :
    Result.fail("expected https://host[:port][/path]; http only for this machine")
}

export const contact: Reader<string> = (text) =>
  /^mailto:[^\s@]+@[^\s@]+$/.test(text) || (URL.canParse(text) && new URL(text).protocol === "https:") ?
    Result.succeed(text) :
    Result.fail("expected mailto:somebody@example.com or an https address")

/** On this machine alone, and with a token. */
export const demoDoor = (text: string): string | null =>
  /^http:\/\/127\.0\.0\.1:\d{1,5}\/[A-Za-z0-9_-]{32,}$/.test(text) ? null : "expected http://127.0.0.1:port/token"

export const masterKey = (text: string): string | null =>
  Buffer.from(text, "base64").length === 32 ? null : "expected 32 bytes in base64 (openssl rand -base64 32)"

export const adminPassword = (text: string): string | null =>
  text.length >= 10 && text.length <= 256 ? null : "expected 10 to 256 characters"

/** A storage folder: `name=path` or `name=path:floor`, the floor in GiB that stays free on its disk. */
export interface FolderSetting {
  readonly name: string
  readonly path: string
  readonly floorBytes: number
}

export const gib = 1 << 30
const folderPattern = /^([a-z0-9][a-z0-9-]{0,31})=([^:]+?)(?::(\d+(?:\.\d+)?))?$/

export const folders: Reader<ReadonlyArray<FolderSetting>> = (text) => {
  const found: Array<FolderSetting> = []
  for (const part of text.split(",").map((part) => part.trim()).filter((part) => part !== "")) {
    const match = folderPattern.exec(part)
    if (match === null) return Result.fail("expected name=/path[:floor in GiB], several separated by commas")
    const [, name, path, floor] = match
    if (found.some((folder) => folder.name === name)) return Result.fail(`the name ${name} stands twice`)
    found.push({ name: name!, path: path!, floorBytes: Math.round(Number(floor ?? "1") * gib) })
  }
  return Result.succeed(found)
}

export const networks: Reader<ReadonlyArray<string>> = (text) => {
  const parts = text.split(",").map((part) => part.trim()).filter((part) => part !== "")
  const wrong = parts.find((part) => networkOf(part) === null)
  return wrong === undefined ?
    Result.succeed(parts) :
    Result.fail(`expected addresses or networks such as 10.0.0.0/8, separated by commas; ${wrong} is none`)
}

export const origins: Reader<ReadonlyArray<string>> = (text) => {
  const parts = text.split(",").map((part) => part.trim()).filter((part) => part !== "")
  const wrong = parts.find((part) => !URL.canParse(part) || new URL(part).origin !== part)
  return wrong === undefined ?
    Result.succeed(parts) :
    Result.fail(`expected origins such as https://wall.example.org, separated by commas; ${wrong} is none`)
}

/** One, or none. */
export const origin: Reader<string> = (text) =>
  text === "" || (/^https?:\/\//.test(text) && URL.parse(text)?.origin === text) ?
    Result.succeed(text) :
    Result.fail("expected http://host:port or https://host:port")

export const anything: Reader<string> = (text) => Result.succeed(text)

const list = (text: string): ReadonlyArray<string> =>
  text.split(",").map((part) => part.trim()).filter((part) => part !== "")

const listOf = (pattern: RegExp, expected: string): Reader<ReadonlyArray<string>> => (text) => {
  const wrong = list(text).find((part) => !pattern.test(part))
  return wrong === undefined ? Result.succeed(list(text)) : Result.fail(`expected ${expected}; ${wrong} is none`)
}

/** One port, or the first and the last of several. */
export const portRange: Reader<readonly [number, number]> = (text) => {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(text)
  const [first, last] = [Number(match?.[1]), Number(match?.[2] ?? match?.[1])]
  return match !== null && first <= last && last <= 65_535 && last - first < 1000 ?
    Result.succeed([first, last]) :
    Result.fail("expected a port or a range of at most 1000 such as 8555-8575")
}

const decoded = (text: string): string => /^(?:[^%]|%[0-7][0-9a-f])*$/i.test(text) ? decodeURIComponent(text) : text

/** `stun:host[:port]`, or `turn:` and `turns:` with `user:password@`, both percent-encoded (RFC 7064, RFC 7065). */
export const iceServers: Reader<ReadonlyArray<IceServer>> = (text) => {
  const found: Array<IceServer> = []
  for (const [index, part] of list(text).entries()) {
    const match =
      /^(stuns?|turns?):(?:([^:@\s]+):([^@\s]+)@)?([\w.-]+|\[[0-9a-f:]+\])((?::\d{1,5})?(?:\?transport=(?:udp|tcp))?)$/i
        .exec(part)
    const [, scheme = "", user, password, host = "", tail = ""] = match ?? []
    if (match === null || /^turn/i.test(scheme) !== (user !== undefined)) {
      return Result.fail(
        `expected stun:host:port and turn:user:password@host:port, separated by commas; number ${index + 1} is neither`,
      )
    }
    found.push({
      url: `${scheme.toLowerCase()}:${host}${tail}`,
      username: user === undefined ? null : decoded(user),
      credential: password === undefined ? null : Redacted.make(decoded(password)),
    })
  }
  return Result.succeed(found)
}

export const interfaceNames = listOf(/^[\w.:%-]+$/, "names or addresses of interfaces, separated by commas")

export const additionalHosts = listOf(
  /^(?:\[[0-9a-f:]+\](?::\d{1,5})?|[\w.-]+(?::\d{1,5})?|[0-9a-f]*:[0-9a-f:]+)$/i,
  "host[:port], separated by commas",
)
