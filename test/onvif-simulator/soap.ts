/** SOAP of the simulated device: reading requests (by a library that the product's client does not write them with), writing replies. */
import { createRequire } from "node:module"

const { parseString } = createRequire(createRequire(import.meta.url).resolve("onvif"))("xml2js") as {
  readonly parseString: (
    xml: string,
    options: { readonly tagNameProcessors: ReadonlyArray<(name: string) => string> },
    callback: (error: Error | null, tree: unknown) => void,
  ) => void
}

/** Anything below an element, by local names; texts and attributes come out as text. */
export class Part {
  readonly #node: unknown
  constructor(node: unknown) {
    this.#node = node
  }
  at(...names: ReadonlyArray<string>): Part {
    let node: unknown = this.#node
    for (const name of names) {
      node = typeof node === "object" && node !== null ? (node as Record<string, unknown>)[name] : undefined
      if (Array.isArray(node)) node = node[0]
    }
    return new Part(node)
  }
  /** Every child of the name. */
  all(name: string): ReadonlyArray<Part> {
    const node = typeof this.#node === "object" && this.#node !== null ?
      (this.#node as Record<string, unknown>)[name] :
      undefined
    return node === undefined ? [] : (Array.isArray(node) ? node : [node]).map((one) => new Part(one))
  }
  get names(): ReadonlyArray<string> {
    return typeof this.#node === "object" && this.#node !== null ?
      Object.keys(this.#node).filter((name) => name !== "$" && name !== "_") :
      []
  }
  get text(): string {
    if (typeof this.#node === "string") return this.#node
    const own = this.#node as { readonly _?: unknown } | undefined
    return typeof own?._ === "string" ? own._ : ""
  }
  get has(): boolean {
    return this.#node !== undefined
  }
  attribute(name: string): string | null {
    const value = (this.#node as { readonly $?: Record<string, unknown> } | undefined)?.$?.[name]
    return typeof value === "string" ? value : null
  }
  number(name: string, otherwise: number): number {
    const text = this.at(name).text
    return text === "" ? otherwise : Number(text)
  }
}

export interface Request {
  readonly operation: string
  readonly body: Part
  readonly header: Part
}

/** Null: it is not SOAP. */
export const readRequest = (xml: string): Request | null => {
  let whole: unknown = null
  parseString(xml, { tagNameProcessors: [(name) => name.replace(/^.*:/, "")] }, (error, tree) => {
    if (error === null) whole = tree
  })
  const envelope = new Part(whole).at("Envelope")
  const [operation] = envelope.at("Body").names
  return operation === undefined ? null : {
    operation,
    body: envelope.at("Body", operation),
    header: envelope.at("Header"),
  }
}

export const escape = (text: string): string =>
  text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;").replace(/"/g, "&quot;")

export const namespaces = {
  device: "http://www.onvif.org/ver10/device/wsdl",
  media: "http://www.onvif.org/ver10/media/wsdl",
  media2: "http://www.onvif.org/ver20/media/wsdl",
  ptz: "http://www.onvif.org/ver20/ptz/wsdl",
  imaging: "http://www.onvif.org/ver20/imaging/wsdl",
  events: "http://www.onvif.org/ver10/events/wsdl",
} as const
export type Service = keyof typeof namespaces

export const reply = (body: string): string =>
  `<?xml version="1.0" encoding="UTF-8"?><env:Envelope xmlns:env="http://www.w3.org/2003/05/soap-envelope" ` +
  `xmlns:tt="http://www.onvif.org/ver10/schema" xmlns:tds="${namespaces.device}" xmlns:trt="${namespaces.media}" ` +
  `xmlns:tr2="${namespaces.media2}" xmlns:tptz="${namespaces.ptz}" xmlns:timg="${namespaces.imaging}" xmlns:tev="${namespaces.events}" ` +
  `xmlns:wsnt="http://docs.oasis-open.org/wsn/b-2" xmlns:wsa="http://www.w3.org/2005/08/addressing" xmlns:ter="http://www.onvif.org/ver10/error">` +
  `<env:Body>${body}</env:Body></env:Envelope>`

/** Core Specification, section 5.8.2. */
export class SoapFault extends Error {
  readonly status: number
  readonly subcodes: ReadonlyArray<string>
  constructor(status: number, subcodes: ReadonlyArray<string>, reason: string) {
    super(reason)
    this.status = status
    this.subcodes = subcodes
  }
  get xml(): string {
    const nested = this.subcodes.reduceRight(
      (inner, code) => `<env:Subcode><env:Value>ter:${code}</env:Value>${inner}</env:Subcode>`,
      "",
    )
    const side = this.status === 400 ? "Sender" : "Receiver"
    return `<env:Fault><env:Code><env:Value>env:${side}</env:Value>${nested}</env:Code><env:Reason>` +
      `<env:Text xml:lang="en">${escape(this.message)}</env:Text></env:Reason></env:Fault>`
  }
}
export const unsupported = (operation: string) =>
  new SoapFault(500, ["ActionNotSupported"], `Optional action ${operation} not implemented`)
export const invalid = (code: string, reason: string) => new SoapFault(400, ["InvalidArgVal", code], reason)
