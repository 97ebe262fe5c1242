/**
 * What requests are answered with (RFC 2326, section 7).
 *
 * Invariants
 * 1. Every answer repeats the request's number and tells the length of its body.
 */
import { Data, Effect } from "effect"
import { formatResponse } from "../rtsp/message.ts"

export interface Answer {
  readonly status: number
  readonly headers?: ReadonlyArray<readonly [string, string]>
  readonly body?: string
  /** Once the answer was written. */
  readonly after?: () => void
}

/** Ends the handling of a request. */
export class Refusal extends Data.TaggedError("Refusal")<Answer> {}
export const refuse = (status: number, headers: Answer["headers"] = []) => Effect.fail(new Refusal({ status, headers }))

const reasons: Readonly<Record<number, string>> = {
  200: "OK",
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  453: "Not Enough Bandwidth",
  454: "Session Not Found",
  455: "Method Not Valid in This State",
  456: "Header Field Not Valid for Resource",
  457: "Invalid Range",
  459: "Aggregate Operation Not Allowed",
  460: "Only Aggregate Operation Allowed",
  461: "Unsupported Transport",
  501: "Not Implemented",
  503: "Service Unavailable",
  551: "Option not supported",
}

export const methods = "OPTIONS, DESCRIBE, SETUP, PLAY, PAUSE, GET_PARAMETER, SET_PARAMETER, TEARDOWN"

export const formatAnswer = (cseq: string, { body = "", headers = [], status }: Answer): Buffer => {
  const all: ReadonlyArray<readonly [string, string]> = [
    ["CSeq", cseq],
    ["Server", "Nightjar"],
    ...headers,
    ...(body === "" ? [] : [["Content-Length", String(Buffer.byteLength(body))] as const]),
  ]
  return Buffer.concat([formatResponse(status, reasons[status] ?? "", all), Buffer.from(body, "utf8")])
}
