/**
 * Texts that no service can keep, refused at the door: NUL, which PostgreSQL has no text with, and halves of surrogate pairs, which
 * are no characters (RFC 8259, section 8.2) and would come back as others.
 *
 * Invariants
 * 1. Neither reaches a handler in a body; the answer is 400 and names the places. (In a request's target there are no halves, and NUL
 *    is refused before anything is asked: `server-requests.ts`.)
 * 2. A body without such an escape is looked at once, as text, and not read a second time.
 */
import { BadRequest, type InputFault } from "#schema/problem.ts"
import { Effect } from "effect"
import { HttpMethod, type HttpServerError, HttpServerRequest } from "effect/http"

/** Told of one request. */
const mostFaults = 20
/** Deeper places are told by what they lie in: no input of ours is deeper, and a pointer must not grow with a hostile one. */
const deepest = 32
const message = "Expected text without NUL and without halves of surrogate pairs"

const suspect = /\\u(?:0000|[dD][89a-fA-F])/
const isKept = (text: string): boolean => text.isWellFormed() && !text.includes("\u0000")

/** RFC 6901, section 3. */
const token = (part: string) =>
  part.toWellFormed().replaceAll("\u0000", "\uFFFD").replaceAll("~", "~0").replaceAll("/", "~1")

/** JSON Pointers of the texts in a JSON document that cannot be kept; of one that cannot be read none. */
export const unkeptTexts = (json: string): ReadonlyArray<string> => {
  if (!suspect.test(json)) return []
  const found: Array<string> = []
  // Not by recursion: a document may be as deep as it is long.
  const open: Array<readonly [pointer: string, depth: number, value: object]> = []
  const look = (name: string | number, item: unknown, pointer: string, depth: number) => {
    const bad = typeof name === "string" && !isKept(name) || typeof item === "string" && !isKept(item)
    if (!bad && (typeof item !== "object" || item === null)) return
    const place = depth < deepest ? `${pointer}/${token(String(name))}` : pointer
    if (bad) found.push(place)
    else open.push([place, depth + 1, item as object])
  }
  try {
    // As the only member of something, so that a document that is a text is looked at too.
    open.push(["", -1, [JSON.parse(json) as unknown]])
  } catch {
    return []
  }
  for (let next = open.pop(); next !== undefined && found.length < mostFaults; next = open.pop()) {
    const [pointer, depth, value] = next
    if (Array.isArray(value)) {
      for (let i = 0; i < value.length && found.length < mostFaults; i++) look(i, value[i], pointer, depth)
    } else for (const [name, item] of Object.entries(value)) look(name, item, pointer, depth)
  }
  return found.slice(0, mostFaults).map((place) => place.replace(/^\/0/, ""))
}

const isJson = (contentType: string | undefined) => contentType === undefined || contentType.includes("json")

/** Fails where the body has such a text. */
export const refuseUnkept: Effect.Effect<
  void,
  BadRequest | HttpServerError.HttpServerError,
  HttpServerRequest.HttpServerRequest
> = Effect.gen(function*() {
  const request = yield* HttpServerRequest.HttpServerRequest
  const body = HttpMethod.hasBody(request.method) && isJson(request.headers["content-type"]) ? yield* request.text : ""
  const errors = unkeptTexts(body).map((pointer): InputFault => ({ pointer: `/payload${pointer}`, message }))
  if (errors.length === 0) return
  return yield* new BadRequest({ message: errors.map((fault) => `${fault.pointer}: ${message}`).join("; "), errors })
})
