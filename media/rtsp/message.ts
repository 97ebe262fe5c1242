/**
 * RTSP messages (RFC 2326, sections 4 to 7), read leniently and written strictly.
 *
 * Invariants
 * 1. Header names are compared in lower case; repeated headers keep their order.
 * 2. `parseHead` is total: a start line that is neither a status nor a request is `null`, a header line without a colon is
 *    left out.
 * 3. What is written contains no line break but its own.
 */

export interface Head {
  readonly headers: ReadonlyArray<readonly [name: string, value: string]>
}

export interface ResponseHead extends Head {
  readonly kind: "response"
  readonly status: number
  readonly reason: string
}

/** A request that the camera sends to us. */
export interface RequestHead extends Head {
  readonly kind: "request"
  readonly method: string
  readonly url: string
}

export interface Message<H extends ResponseHead | RequestHead = ResponseHead | RequestHead> {
  readonly head: H
  readonly body: Buffer
}

/** Longest head in bytes, and number of headers in it. */
export const maxHeadBytes = 16 * 1024
const maxHeaders = 100

const statusLine = /^RTSP\/\d\.\d[ \t]+(\d{3})(?:[ \t]+(.*))?$/i
const requestLine = /^([A-Z_]{3,20})[ \t]+(\S+)[ \t]+RTSP\/\d\.\d$/i

/** `text` is a head without its empty line. */
export const parseHead = (text: string): ResponseHead | RequestHead | null => {
  const lines = text.split(/\r\n|\n|\r/)
  const first = (lines[0] ?? "").trim()
  const headers: Array<[string, string]> = []
  for (const line of lines.slice(1)) {
    if (headers.length >= maxHeaders) break
    const last = headers.at(-1)
    if (/^[ \t]/.test(line) && last !== undefined) {
      // Folded header (RFC 2822, section 2.2.3).
      last[1] = `${last[1]} ${line.trim()}`
      continue
    }
    const colon = line.indexOf(":")
    if (colon > 0) headers.push([line.slice(0, colon).trim().toLowerCase(), line.slice(colon + 1).trim()])
  }
  const status = statusLine.exec(first)
  if (status !== null) return { kind: "response", status: Number(status[1]), reason: status[2] ?? "", headers }
  const request = requestLine.exec(first)
  if (request === null) return null
  return { kind: "request", method: request[1]!.toUpperCase(), url: request[2]!, headers }
}

/** The first header of that name (lower case), or `null`. */
export const header = (head: Head, name: string): string | null =>
  head.headers.find(([key]) => key === name)?.[1] ?? null

export const headerValues = (head: Head, name: string): ReadonlyArray<string> =>
  head.headers.filter(([key]) => key === name).map(([, value]) => value)

/** A header with a whole number; `null` where it is missing or is none. */
export const integerHeader = (head: Head, name: string): number | null => {
  const value = /^\d{1,9}/.exec(header(head, name) ?? "")
  return value === null ? null : Number(value[0])
}

const oneLine = (text: string) => text.replace(/[\r\n]/g, " ")

export const formatRequest = (
  method: string,
  url: string,
  headers: ReadonlyArray<readonly [string, string]>,
): Buffer => {
  const lines = headers.map(([name, value]) => `${oneLine(name)}: ${oneLine(value)}`)
  return Buffer.from([`${method} ${oneLine(url)} RTSP/1.0`, ...lines, "", ""].join("\r\n"), "utf8")
}

/** The answer to a request of the camera's. */
export const formatResponse = (
  status: number,
  reason: string,
  headers: ReadonlyArray<readonly [string, string]>,
): Buffer =>
  Buffer.from(
    [`RTSP/1.0 ${status} ${reason}`, ...headers.map(([name, value]) => `${oneLine(name)}: ${oneLine(value)}`), "", ""]
      .join("\r\n"),
    "utf8",
  )

/** `Session: 12345678;timeout=60`. The time-out in seconds; `null` where the camera tells none. */
export const parseSession = (value: string): { readonly id: string; readonly timeoutSeconds: number | null } => {
  const [id = "", ...parameters] = value.split(";").map((part) => part.trim())
  const timeout = parameters.map((part) => /^timeout\s*=\s*(\d{1,6})/i.exec(part)?.[1]).find((text) =>
    text !== undefined
  )
  return { id, timeoutSeconds: timeout === undefined || Number(timeout) === 0 ? null : Number(timeout) }
}

/** What the camera chose for one track (section 12.39). Absent or unreadable members are `null`. */
export interface TransportAnswer {
  readonly interleaved: readonly [rtp: number, rtcp: number] | null
  readonly serverPort: readonly [rtp: number, rtcp: number] | null
  readonly source: string | null
}

const pair = (value: string | undefined, max: number): readonly [number, number] | null => {
  const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(value ?? "")
  if (match === null) return null
  const first = Number(match[1])
  const second = match[2] === undefined ? first + 1 : Number(match[2])
  return first <= max && second <= max ? [first, second] : null
}

export const parseTransport = (value: string): TransportAnswer => {
  const members = new Map<string, string>()
  for (const part of (value.split(",")[0] ?? "").split(";")) {
    const equals = part.indexOf("=")
    if (equals > 0) members.set(part.slice(0, equals).trim().toLowerCase(), part.slice(equals + 1).trim())
  }
  return {
    interleaved: pair(members.get("interleaved"), 255),
    serverPort: pair(members.get("server_port"), 65535),
    source: members.get("source") ?? null,
  }
}
