/**
 * What the recorder says is wrong, in words for a person. Its reasons have the form
 * `<code>: <detail> (<host and path>, packet <n>, byte <n>)`; anything else is shown as it is.
 */

export interface Reason {
  /** One sentence. */
  readonly headline: string
  /** What a person who looks into it wants to know besides; may be empty. */
  readonly detail: string
}

const headlines: Readonly<Record<string, string>> = {
  unreachable: "The camera cannot be reached",
  closed: "The camera closed the connection",
  timeout: "The camera does not answer",
  unauthorized: "The camera refused the user name or the password",
  notFound: "The camera has no stream at this path",
  refused: "The camera refused the stream",
  protocol: "What the camera sends cannot be read",
  unsupported: "The camera offers nothing that can be recorded",
}

const capital = (text: string): string => text.slice(0, 1).toUpperCase() + text.slice(1)

export const reasonOf = (text: string): Reason => {
  const match = /^(\w+): (.*) \(([^()]*), packet \d+, byte \d+\)$/s.exec(text)
  const headline = headlines[match?.[1] ?? ""]
  if (match === null || headline === undefined) return { headline: capital(text), detail: "" }
  const [, , said = "", where = ""] = match
  // Nothing is said twice.
  const detail = said.toLowerCase() === headline.toLowerCase() ? where : `${where}: ${said}`
  return { headline, detail }
}
