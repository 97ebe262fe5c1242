/**
 * Words for answers that are not a success: the problem document (RFC 9457) and the errors that every slice shares.
 *
 * Invariants
 * 1. A domain error is a `Schema.TaggedError` with an `httpApiStatus` and a `message` made for a person to read.
 * 2. Every field of a domain error is public: it becomes a member of the problem document. Secrets, SQL and stack traces
 *    never are fields.
 * 3. A code is the tag in snake_case and, like the tag, never changes once it was released.
 */
import { Schema } from "effect"

/** One fault in what was sent: `pointer` is a JSON Pointer (RFC 6901) whose first token names the part (`/payload/name`). */
export const InputFault = Schema.Struct({ pointer: Schema.String, message: Schema.String })
export type InputFault = typeof InputFault.Type

/** RFC 9457, section 3.1, with the extension members of this product. */
export const Problem = Schema.Struct({
  type: Schema.String,
  title: Schema.String,
  status: Schema.Int,
  detail: Schema.String,
  /** The path that was asked for, without its query (which may hold a token). */
  instance: Schema.optionalKey(Schema.String),
  /** Stable, for programs: `camera_not_found`. */
  code: Schema.String,
  /** Finds the request in the log. 32 hexadecimal digits (W3C Trace Context). */
  traceId: Schema.optionalKey(Schema.String),
  errors: Schema.optionalKey(Schema.Array(InputFault)),
}).annotate({ identifier: "Problem", description: "A problem document (RFC 9457)" })
export type Problem = typeof Problem.Type

/** `CameraNotFound` to `camera_not_found`. */
export const codeOf = (tag: string): string =>
  tag.replace(/([a-z0-9])([A-Z])/g, "$1_$2").replace(/([A-Z]+)([A-Z][a-z])/g, "$1_$2").toLowerCase()

/** `CameraNotFound` to `Camera not found`. */
export const titleOf = (tag: string): string => {
  const words = codeOf(tag).replaceAll("_", " ")
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** What was sent cannot be read: not JSON, a missing member, a number where a text belongs. */
export class BadRequest extends Schema.TaggedError<BadRequest>()("BadRequest", {
  message: Schema.String,
  errors: Schema.Array(InputFault),
}, { httpApiStatus: 400 }) {}

/** Well formed, but it cannot be: an end before its start. */
export class InvalidInput extends Schema.TaggedError<InvalidInput>()("InvalidInput", {
  message: Schema.String,
  errors: Schema.Array(InputFault),
}, { httpApiStatus: 422 }) {
  /** For the common case of one fault: `InvalidInput.at("/payload/end", "must lie after the start")`. */
  static at(pointer: string, message: string): InvalidInput {
    return new InvalidInput({ message: `${pointer}: ${message}`, errors: [{ pointer, message }] })
  }
}

/** A cursor that this server did not make, or made for another list. */
export class InvalidCursor extends Schema.TaggedError<InvalidCursor>()("InvalidCursor", {
  message: Schema.String,
}, { httpApiStatus: 400 }) {}

/** No token, or one that is expired, revoked or not ours. */
export class Unauthenticated extends Schema.TaggedError<Unauthenticated>()("Unauthenticated", {
  message: Schema.String,
}, { httpApiStatus: 401 }) {}

/** Known, but not allowed. */
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", {
  message: Schema.String,
}, { httpApiStatus: 403 }) {}

/** `If-Match` named a version that is no longer the current one. */
export class VersionConflict extends Schema.TaggedError<VersionConflict>()("VersionConflict", {
  message: Schema.String,
}, { httpApiStatus: 412 }) {}

export class PayloadTooLarge extends Schema.TaggedError<PayloadTooLarge>()("PayloadTooLarge", {
  message: Schema.String,
  limitBytes: Schema.Int,
}, { httpApiStatus: 413 }) {}

/** The key was used before for another request, or that request is still running. */
export class IdempotencyConflict extends Schema.TaggedError<IdempotencyConflict>()("IdempotencyConflict", {
  message: Schema.String,
}, { httpApiStatus: 409 }) {}

/** Answered with `Retry-After`. */
export class TooManyRequests extends Schema.TaggedError<TooManyRequests>()("TooManyRequests", {
  message: Schema.String,
  retryAfterSeconds: Schema.Int,
}, { httpApiStatus: 429 }) {}

/** This machine or this release cannot do it; the message says why. */
export class NotSupported extends Schema.TaggedError<NotSupported>()("NotSupported", {
  message: Schema.String,
}, { httpApiStatus: 501 }) {}

/** Something the answer depends on is away for now: the database, the node that owns the camera. */
export class DependencyUnavailable extends Schema.TaggedError<DependencyUnavailable>()("DependencyUnavailable", {
  message: Schema.String,
  /** `database`, `node`, `camera`, … */
  dependency: Schema.String,
}, { httpApiStatus: 503 }) {}

/** The answer was not ready within the time limit of a request. */
export class RequestTimedOut extends Schema.TaggedError<RequestTimedOut>()("RequestTimedOut", {
  message: Schema.String,
}, { httpApiStatus: 503 }) {}
