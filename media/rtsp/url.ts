/**
 * RTSP URLs as cameras and people write them, and the `a=control` addresses under them (RFC 2326, appendix C.1.1).
 *
 * Invariants
 * 1. What is sent in a request line never has a user or a password; what stands in an error never has a query either.
 * 2. The text of the path and query is not normalised: cameras compare it, and Digest hashes it.
 */
import { Malformed } from "../codec/malformed.ts"

export interface RtspUrl {
  /** Without brackets around an IPv6 address. */
  readonly host: string
  readonly port: number
  /** `host:port` for errors. */
  readonly authority: string
  /** Without query, for errors; begins with `/`. */
  readonly path: string
  /** What request lines carry: without credentials. */
  readonly text: string
}

const pattern = /^rtsp:\/\/(?:[^/?#]*@)?(\[[0-9a-f:.%]+\]|[\w.~-]+)(?::(\d{1,5}))?([/?][^#]*)?(?:#.*)?$/i
/** Longest accepted URL; request lines of cameras' servers end at some kilobytes. */
const maxUrl = 4096
const printable = /^[\x21-\x7e]*$/

const encoded = (text: string) => printable.test(text) ? text : encodeURI(text).replaceAll("%25", "%")

/** Throws `Malformed`; its text does not quote the URL. */
export const parseRtspUrl = (text: string): RtspUrl => {
  const match = text.length > maxUrl ? null : pattern.exec(text.trim())
  const port = Number(match?.[2] ?? 554)
  if (match === null || port < 1 || port > 65535) {
    throw new Malformed({ what: "RTSP URL", at: 0, unit: "byte", detail: "expected rtsp://host[:port]/path" })
  }
  const host = match[1]!
  const rest = encoded(match[3] ?? "/")
  const withPort = match[2] === undefined ? host : `${host}:${port}`
  return {
    host: host.replace(/^\[|\]$/g, ""),
    port,
    authority: `${host}:${port}`,
    path: rest.startsWith("?") ? "/" : rest.split("?")[0]!,
    text: `rtsp://${withPort}${rest}`,
  }
}

const absolute = /^rtsps?:\/\//i

/** A URL that a camera told, for use in a request line: without credentials, control characters and blanks. */
const cleaned = (text: string) => text.replace(/^(rtsps?:\/\/)[^/?#]*@/i, "$1").replace(/[^\x21-\x7e]/g, "")

/**
 * The address that relative control attributes stand under: `Content-Base`, else `Content-Location`, else the URL that was
 * asked for. A base that is only a path, as some cameras send, is put behind our own host.
 */
export const baseUrl = (asked: RtspUrl, told: string | null): string => {
  const text = told === null ? "" : cleaned(told.trim())
  if (absolute.test(text)) return text
  if (!text.startsWith("/")) return asked.text
  const origin = /^rtsp:\/\/[^/?]+/i.exec(asked.text)
  return `${origin?.[0] ?? asked.text}${text}`
}

/**
 * Resolves a control attribute. Servers join texts, they do not apply RFC 3986: it goes behind the base, query and all, with
 * a slash between unless either brings one or it begins a query.
 */
export const controlUrl = (base: string, control: string): string => {
  const text = cleaned(control.trim())
  if (text === "" || text === "*") return base
  if (absolute.test(text)) return text
  return base.endsWith("/") && text.startsWith("/") ?
    base + text.slice(1) :
    base.endsWith("/") || text.startsWith("/") || text.startsWith("?") ?
    base + text :
    `${base}/${text}`
}

/** A line for a person, without what looks like credentials or a query. */
export const withoutSecrets = (text: string): string =>
  text.replace(/(rtsps?:\/\/)[^/\s@]*@/gi, "$1").replace(/\?[^\s"'>]*/g, "?…").replace(/[^\x20-\x7e…]/g, ".").slice(
    0,
    200,
  )
