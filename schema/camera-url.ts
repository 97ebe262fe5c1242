/**
 * Source URLs of cameras: what is accepted, and how credentials are taken out of them.
 *
 * Invariants
 * 1. What `splitSourceUrl` returns as `url` holds no user name and no password, and parses to the same host, port, path and query.
 * 2. No fault text repeats the URL: it may hold a password.
 */

export interface SplitSourceUrl {
  readonly url: string
  /** Percent-decoded; null where the URL names none. */
  readonly username: string | null
  readonly password: string | null
}

/** RFC 3986, section 3.2.1: percent-encoded; a stray `%` is taken literally, as cameras' manuals print them. */
const decoded = (text: string): string | null => {
  if (text === "") return null
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

const hasControl = (text: string): boolean => {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code <= 0x20 || code === 0x7f) return true
  }
  return false
}

/** Null: it is acceptable. Otherwise what a person should mend. */
export const sourceUrlFault = (text: string): string | null => {
  if (hasControl(text)) return "Expected a URL without blanks or control characters"
  if (!URL.canParse(text)) return "Expected a URL such as rtsp://camera.example:554/path"
  const url = new URL(text)
  if (url.protocol !== "rtsp:") return "Expected a URL that begins with rtsp://"
  if (url.hostname === "") return "Expected a URL with a host"
  if (url.port === "0") return "Expected a port from 1 to 65535"
  if (url.hash !== "") return "Expected a URL without a fragment (#); a # in a password is written %23"
  return null
}

/** As a URL writes it: IPv6 addresses in brackets, letters small. */
const hostnameOf = (host: string): string =>
  (host.includes(":") && !host.startsWith("[") ? `[${host}]` : host).toLowerCase()

/** The same place on a camera that went from one host to another; an address elsewhere stays as it is. */
export const movedSourceUrl = (text: string, from: string, to: string): string => {
  const url = new URL(text)
  if (url.hostname.toLowerCase() !== hostnameOf(from)) return text
  url.hostname = hostnameOf(to)
  return url.href
}

/** Takes the credentials out. Call it with what `sourceUrlFault` accepts. */
export const splitSourceUrl = (text: string): SplitSourceUrl => {
  const url = new URL(text)
  const username = decoded(url.username)
  const password = decoded(url.password)
  url.username = ""
  url.password = ""
  return { url: url.href, username, password }
}
