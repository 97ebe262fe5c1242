/**
 * Inputs for the operations of the Api: valid ones derived from their schemas, and what may go wrong with them.
 *
 * Invariants
 * 1. An input depends on its seed alone (and on the ids of what is there), so a failure is told by seed, operation and number.
 * 2. Nothing that is sent names a host but this machine's port 1, where nobody listens.
 */
import { Arbitrary, Effect, Option, Schema } from "effect"
import type { HttpApiEndpoint } from "effect/http-api"
import { random } from "../media/random.ts"

export type Rng = ReturnType<typeof random>

/** FNV-1a: one number of many words. */
export const seedOf = (...words: ReadonlyArray<string | number>): number => {
  let hash = 0x811c_9dc5
  for (const byte of Buffer.from(words.join("/"))) hash = Math.imul(hash ^ byte, 0x0100_0193)
  return hash >>> 0
}

const pick = <A>(rng: Rng, of: ReadonlyArray<A>): A => of[rng(of.length)]!

/** What schemas whose checks nothing can be derived from take. */
const known: Readonly<Record<string, ReadonlyArray<unknown>>> = {
  cidr: ["192.0.2.0/24", "fd00::/8", "198.51.100.7"],
  timeZone: ["Europe/Berlin", "UTC", "America/St_Johns"],
  sourceUrl: ["rtsp://127.0.0.1:1/a"],
  host: ["127.0.0.1"],
  port: [1],
  url: ["http://127.0.0.1:1/hook"],
  endpoint: ["https://127.0.0.1:1/push"],
  date: ["2026-03-29", "2026-10-25"],
  month: ["2026-03"],
}

/** Members of bodies that name something that is there, by what they name. */
export interface Known {
  readonly [member: string]: ReadonlyArray<string>
}

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** Puts hosts on this machine everywhere, and known ids where they belong, half of the time. */
const seasoned = (value: unknown, things: Known, rng: Rng, name = ""): unknown => {
  if (Array.isArray(value)) return value.map((item) => seasoned(item, things, rng, name))
  if (isRecord(value)) {
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, seasoned(item, things, rng, key)]))
  }
  const fixed = known[name]
  if (fixed !== undefined && value !== null) return pick(rng, fixed)
  const there = things[name]
  return there !== undefined && typeof value === "string" && rng(2) === 0 ? pick(rng, there) : value
}

/** A schema's wire form at random; none where nothing can be derived from it. */
const sampled = (schema: Schema.Top, seed: number, size: number): Option.Option<unknown> =>
  Effect.runSync(
    Effect.suspend(() =>
      Arbitrary.sampleEffect(Arbitrary.schema(schema as Schema.Codec<unknown>), {
        count: 1,
        size,
        seed,
        maxDiscards: 200,
      })
    ).pipe(
      Effect.flatMap(([value]) => Schema.encodeUnknownEffect(schema as Schema.Codec<unknown>)(value)),
      Effect.option,
      Effect.catchDefect(() => Effect.succeedNone),
    ),
  )

/** As much of a structure as can be derived: members that cannot be are those of {@link known}, or left out. */
const structure = (schema: Schema.Top, seed: number, size: number): unknown => {
  const whole = sampled(schema, seed, size)
  if (Option.isSome(whole)) return whole.value
  if (!("fields" in schema)) return null
  const fields = Object.entries(schema.fields as Record<string, Schema.Top>)
  return Object.fromEntries(fields.flatMap(([name, field]) => {
    const fixed = known[name]
    if (fixed !== undefined) return [[name, fixed[seed % fixed.length]]]
    const value = structure(field, seedOf(seed, name), size)
    return value === null || value === undefined ? [] : [[name, value]]
  }))
}

/** What a request consists of before it is written down. */
export interface Input {
  readonly params: Record<string, unknown>
  readonly query: Record<string, unknown>
  readonly body: unknown
  readonly contentType: string
}

/** Valid by the schemas of the operation, as far as one can know without asking. */
export const validInput = (endpoint: HttpApiEndpoint.Top, things: Known, seed: number, size: number): Input => {
  const rng = random(seed)
  const record = (schema: Schema.Top | undefined): Record<string, unknown> => {
    if (schema === undefined) return {}
    const value = structure(schema, rng(1 << 30), size)
    return isRecord(value) ? seasoned(value, things, rng) as Record<string, unknown> : {}
  }
  const params = record(endpoint.params)
  const query = record(endpoint.query)
  const payloads = [...endpoint.payload].flatMap(([contentType, { schemas }]) =>
    schemas.map((schema) => ({ contentType, schema }))
  )
  if (payloads.length === 0) return { params, query, body: undefined, contentType: "application/json" }
  const { contentType, schema } = pick(rng, payloads)
  return { params, query, contentType, body: seasoned(structure(schema, rng(1 << 30), size), things, rng) }
}

const nested = (levels: number): unknown => {
  let value: unknown = 0
  for (let i = 0; i < levels; i++) value = i % 2 === 0 ? [value] : { a: value }
  return value
}

/** Texts that were somebody's undoing. */
export const oddTexts: ReadonlyArray<string> = [
  "",
  " ",
  "\u0000",
  "a\u0000b",
  "\ud800",
  "\udc00x",
  "x".repeat(300),
  "x".repeat(70_000),
  "\u202Egnp.exe",
  "e\u0301\u0327".repeat(20),
  "🦉".repeat(40),
  "İ",
  "ß",
  "\uFEFF",
  "\r\nset-cookie: a=b",
  "'; DROP TABLE auth_user; --",
  "%_\\",
  "${7*7}",
  "../../etc/passwd",
  "null",
  "__proto__",
  "constructor",
  "1e309",
  "-1",
  "9223372036854775808",
  "01900000-0000-7000-8000-00000000000a",
  "2026-02-30T25:61:61Z",
  "9999-12-31T23:59:59.999Z",
  "0000-01-01T00:00:00.000Z",
  "-000001-01-01T00:00:00Z",
]

const oddValues: ReadonlyArray<() => unknown> = [
  () => null,
  () => true,
  () => 0,
  () => -1,
  () => 0.5,
  () => 2 ** 31,
  () => 2 ** 53,
  () => -(2 ** 63),
  () => 1e308,
  () => [],
  () => ({}),
  () => nested(200),
  () => Array.from({ length: 5_000 }, () => "x"),
  () => Array.from({ length: 1_001 }, (_, i) => ({ kind: "camera", id: String(i) })),
  () => Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`k${i}`, i])),
  () => JSON.parse("{\"__proto__\":{\"admin\":true},\"constructor\":1}") as unknown,
]

const odd = (rng: Rng): unknown => rng(2) === 0 ? pick(rng, oddTexts) : pick(rng, oddValues)()

/** Something in the value is another than it was, or there twice, or gone. */
export const mutated = (value: unknown, rng: Rng): unknown => {
  if (Array.isArray(value) && value.length > 0 && rng(4) > 0) {
    const at = rng(value.length)
    return rng(3) === 0 ? [...value, ...value] : value.map((item, i) => i === at ? mutated(item, rng) : item)
  }
  if (isRecord(value) && rng(8) > 0) {
    const names = Object.keys(value)
    if (names.length === 0 || rng(10) === 0) return { ...value, [pick(rng, oddTexts)]: odd(rng) }
    const name = pick(rng, names)
    if (rng(6) === 0) return Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))
    return { ...value, [name]: mutated(value[name], rng) }
  }
  if (typeof value === "string" && rng(3) === 0) {
    const at = rng(value.length + 1)
    return value.slice(0, at) + pick(rng, oddTexts) + value.slice(at)
  }
  return odd(rng)
}

/** Bodies that are no JSON, or hardly. */
export const brokenBodies: ReadonlyArray<string | Uint8Array> = [
  "",
  "{",
  "nul",
  "[]",
  "\"text\"",
  "0",
  "{\"a\":1}{",
  "\uFEFF{}",
  "{\"a\":1,\"a\":2,\"__proto__\":{}}",
  "{\"\\ud800\":\"\\udfff\"}",
  "[".repeat(50_000),
  `${"[".repeat(20_000)}${"]".repeat(20_000)}`,
  `{"a":${"[".repeat(20_000)}${"]".repeat(20_000)}}`,
  `{"a":${"{\"a\":".repeat(20_000)}1${"}".repeat(20_000)}}`,
  `{"a":"${"x".repeat(1 << 20)}"}`,
  new Uint8Array([0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d]),
  new Uint8Array([0x1f, 0x8b, 0x08, 0x00, 0x00]),
  new Uint8Array(0),
]

export const contentTypes: ReadonlyArray<string> = [
  "application/json",
  "application/json; charset=utf-16",
  "application/merge-patch+json",
  "text/plain",
  "application/x-www-form-urlencoded",
  "multipart/form-data",
  "multipart/form-data; boundary=x",
  "application/octet-stream",
  ";;;",
  "",
]

/** Headers that are read somewhere, with what nobody should send; an array is the header twice. */
export const oddHeaders: ReadonlyArray<Readonly<Record<string, string | ReadonlyArray<string>>>> = [
  { "if-match": "*" },
  { "if-match": "\"0\"" },
  { "if-match": "\"99999999999999999999\"" },
  { "if-match": "W/\"1\"" },
  { "if-match": "\"1\", \"2\"" },
  { "if-match": ["\"1\"", "\"2\""] },
  { "if-match": "" },
  { "idempotency-key": "" },
  { "idempotency-key": "x".repeat(300) },
  { "idempotency-key": "one and the same" },
  { "idempotency-key": "same" },
  { "idempotency-key": ["same", "other"] },
  { "idempotency-key": "\u00fc\u00ff" },
  { authorization: "Bearer" },
  { authorization: "Bearer a.b.c" },
  { authorization: `Bearer ${"x".repeat(8_000)}` },
  { authorization: "Basic Og==" },
  { authorization: "\u00ff" },
  { authorization: ["Bearer a", "Bearer b"] },
  { "if-none-match": "*" },
  { range: "bytes=5-1" },
  { "accept": "text/event-stream, */*;q=0" },
  { "last-event-id": "\u00ff" },
  { "last-event-id": "x".repeat(4_000) },
  { traceparent: "00-zz-zz-zz" },
  { forwarded: "for=\"[::1" },
  { "x-forwarded-for": ["1.2.3.4", "5.6.7.8"] },
  { cookie: "nightjar_refresh=%00; nightjar_refresh=\"" },
  { "content-encoding": "gzip" },
  { expect: "100-continue" },
  { origin: "null" },
  { "user-agent": "\u00ff".repeat(2_000) },
  { "accept-language": "x".repeat(2_000) },
]

/** Percent-encoded bytes of paths that are no text. */
export const oddPaths: ReadonlyArray<string> = [
  "%00",
  "%zz",
  "%ff",
  "%ED%A0%80",
  "..%2f..",
  "%0d%0a",
  "%2500",
  "x".repeat(2_100),
]
