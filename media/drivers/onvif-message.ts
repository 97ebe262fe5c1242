/**
 * Messages of ONVIF devices (SOAP 1.2): making requests, reading replies, sorting faults.
 *
 * Invariants
 * 1. Every text that goes into a request is escaped; characters that XML 1.0 cannot hold are left out.
 * 2. `readReply` is total, whatever the text: it gives a body, a fault or `Malformed`, within {@link maxDepth} levels and a time that grows with
 *    the length alone. A document type is refused, so no entity can grow.
 * 3. Namespaces are not looked at: devices get them wrong, and local names tell elements of one reply apart.
 */
import { maxDetail } from "#schema/camera-device.ts"
import { createRequire } from "node:module"
import { Malformed } from "../codec/malformed.ts"

/** The library's reader of SOAP; its types do not cover it. */
const require = createRequire(import.meta.url)
const { parseSOAPString } = require("onvif/lib/utils.js") as {
  readonly parseSOAPString: (
    xml: string,
    callback: (error: Error | null, body: unknown, xml: string, status: number) => void,
    status: number,
  ) => void
}

/** Levels of elements in a reply; ONVIF's own need about 15. */
const maxDepth = 40
/** Tags of a reply, opening and closing: some ten times what a device with sixteen profiles sends. */
const maxTags = 40_000
/** Declarations of namespaces that are left after the ordinary ones are taken out; the library's pattern is quadratic in them. */
const maxOddDeclarations = 64

const malformed = (detail: string) => new Malformed({ what: "a camera's reply", at: 0, unit: "byte", detail })

const namespaces = {
  device: "http://www.onvif.org/ver10/device/wsdl",
  media: "http://www.onvif.org/ver10/media/wsdl",
  media2: "http://www.onvif.org/ver20/media/wsdl",
  ptz: "http://www.onvif.org/ver20/ptz/wsdl",
  imaging: "http://www.onvif.org/ver20/imaging/wsdl",
  events: "http://www.onvif.org/ver10/events/wsdl",
} as const
export type ServiceName = keyof typeof namespaces
export const namespaceOf = (service: ServiceName): string => namespaces[service]
export const serviceOf = (namespace: string): ServiceName | null =>
  (Object.keys(namespaces) as ReadonlyArray<ServiceName>).find((name) => namespaces[name] === namespace) ?? null

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "\"": "&quot;",
  "'": "&apos;",
}
// oxlint-disable-next-line no-control-regex -- exactly the characters that XML 1.0, section 2.2, leaves out
const unspeakable = /[\u0000-\u0008\u000B\u000C\u000E-\u001F\uFFFE\uFFFF]/g
/** For element content and attribute values. */
export const escaped = (text: string): string =>
  text.toWellFormed().replace(unspeakable, "").replace(/[&<>"']/g, (character) => entities[character]!)

/** A whole request. `security` and `body` are XML already; `tt:` is the schema's prefix. */
export const envelope = (security: string, body: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?><s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" ` +
  `xmlns:tt="http://www.onvif.org/ver10/schema"><s:Header>${security}</s:Header><s:Body>${body}</s:Body></s:Envelope>`

/** An element as the schemas see it: attributes as `$name`, text of an element that has more as `$text`, children by local name. */
export interface XmlElement {
  readonly [name: string]: XmlNode | ReadonlyArray<XmlNode>
}
export type XmlNode = string | XmlElement

const isRecord = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** From the library's tree, where every child is a list, to one where those that come once are themselves. */
const simplified = (node: unknown, depth: number): XmlNode => {
  if (depth > maxDepth) throw malformed("it is nested too deeply")
  if (!isRecord(node)) return typeof node === "string" ? node : ""
  const made: Record<string, XmlNode | ReadonlyArray<XmlNode>> = Object.create(null) as Record<string, XmlNode>
  for (const [name, value] of Object.entries(node)) {
    if (name === "_") made["$text"] = typeof value === "string" ? value : ""
    else if (name === "$" && isRecord(value)) {
      for (const [attribute, text] of Object.entries(value)) {
        made[`$${attribute.replace(/^.*:/, "")}`] = typeof text === "string" ? text : ""
      }
    } else {
      const children = (Array.isArray(value) ? value : [value]).map((child: unknown) => simplified(child, depth + 1))
      made[name] = children.length === 1 ? children[0]! : children
    }
  }
  return made
}

export interface Fault {
  /** Local names of code and subcodes, the coarsest first. */
  readonly codes: ReadonlyArray<string>
  /** The device's own words, shortened. */
  readonly reason: string
}

export type Reply = { readonly body: XmlElement } | { readonly fault: Fault }

const child = (node: XmlNode | ReadonlyArray<XmlNode> | undefined, name: string): XmlNode | undefined => {
  if (node === undefined || typeof node === "string" || Array.isArray(node)) return undefined
  const found = (node as XmlElement)[name]
  return Array.isArray(found) ? found[0] as XmlNode : found as XmlNode | undefined
}
const textOf = (node: XmlNode | undefined): string =>
  node === undefined ? "" : typeof node === "string" ? node : textOf(child(node, "$text"))

const faultOf = (node: XmlNode): Fault => {
  const codes: Array<string> = []
  let code = child(node, "code")
  while (code !== undefined && codes.length < 5) {
    const value = textOf(child(code, "value")).trim().replace(/^.*:/, "")
    if (value !== "") codes.push(value)
    code = child(code, "subcode")
  }
  const reason = textOf(child(child(node, "reason"), "text")) || textOf(child(node, "faultstring")) ||
    textOf(child(child(node, "detail"), "text")) || codes.join(", ")
  return { codes, reason: reason.replace(/\s+/g, " ").trim().slice(0, maxDetail) }
}

/** The library lowers the first letter of names: `GetProfilesResponse` is `getProfilesResponse`, `PTZ` stays. */
export const readReply = (text: string): Reply => {
  if (/<!DOCTYPE/i.test(text)) throw malformed("it has a document type")
  const plain = text.replace(/\sxmlns(?::[\w.-]+)?\s*=\s*(?:"[^"]*"|'[^']*')/g, "")
  if (plain.split("xmlns").length > maxOddDeclarations) throw malformed("it is not SOAP")
  if (plain.split("<").length > maxTags) throw malformed("it has too many elements")
  const answers: Array<{ readonly error: Error | null; readonly body: unknown }> = []
  try {
    parseSOAPString(plain, (error, body) => {
      answers.push({ error, body })
    }, 200)
  } catch {
    throw malformed("it is not XML")
  }
  // The library answers twice where the text goes on after the envelope; the first answer is the envelope's.
  const body: unknown = Array.isArray(answers[0]?.body) ? answers[0].body[0] : null
  if (!isRecord(body)) throw malformed("it is not SOAP")
  const tree = simplified(body, 0)
  if (typeof tree === "string") throw malformed("it is empty")
  const fault = child(tree, "fault")
  if (fault !== undefined) return { fault: faultOf(fault) }
  if (answers[0]?.error) throw malformed("it is not XML")
  return { body: tree }
}
