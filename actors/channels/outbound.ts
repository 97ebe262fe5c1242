/**
 * One bounded `POST` to somebody else's server: webhooks, push services, the licence server.
 *
 * Invariants
 * 1. It ends within `timeoutMs`, whatever the server does, and reads `maxAnswerBytes` of the answer at most.
 * 2. Redirects are not followed: an address that was checked must be the one that is talked to.
 * 3. The address that a name stands for is checked at the moment of the connection, so no later answer of the name server slips
 *    another one in. Private networks are allowed, as recorders live there; link-local addresses, where clouds keep the
 *    credentials of a machine, are not.
 */
import { Effect, Schema } from "effect"
import { lookup as resolveName } from "node:dns"
import { type ClientRequest, type IncomingHttpHeaders, type IncomingMessage, request as httpRequest } from "node:http"
import { request as httpsRequest } from "node:https"
import { BlockList, isIP, type LookupFunction } from "node:net"

export interface OutboundRequest {
  /** `https:` or `http:`. */
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
  readonly timeoutMs: number
  readonly maxAnswerBytes: number
  /** `internet`: not to addresses of private networks or of this machine, for addresses that are not an administrator's choice. */
  readonly network?: Network
}

export type Network = "any" | "internet"

export interface OutboundAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Cut off at `maxAnswerBytes`. */
  readonly body: Buffer
  readonly cut: boolean
}

/** There was no answer. */
export class OutboundFailed extends Schema.TaggedError<OutboundFailed>()("OutboundFailed", {
  reason: Schema.Literals([
    "name", // the name server does not know it
    "forbidden", // an address that nothing is sent to
    "connection", // refused, reset, no way there
    "certificate", // TLS cannot be agreed on or the certificate is not trusted
    "timeout",
  ]),
  detail: Schema.String,
}) {
  override get message(): string {
    return this.detail
  }
}

const forbidden = new BlockList()
forbidden.addSubnet("0.0.0.0", 8, "ipv4")
forbidden.addSubnet("169.254.0.0", 16, "ipv4") // link-local (RFC 3927): metadata of most clouds
forbidden.addAddress("100.100.100.200", "ipv4") // metadata of Alibaba Cloud
forbidden.addSubnet("224.0.0.0", 3, "ipv4") // multicast and reserved
forbidden.addAddress("::", "ipv6")
forbidden.addSubnet("fe80::", 10, "ipv6") // link-local (RFC 4291)
forbidden.addAddress("fd00:ec2::254", "ipv6") // metadata of Amazon
forbidden.addSubnet("ff00::", 8, "ipv6")

const inside = new BlockList()
inside.addSubnet("10.0.0.0", 8, "ipv4")
inside.addSubnet("172.16.0.0", 12, "ipv4")
inside.addSubnet("192.168.0.0", 16, "ipv4")
inside.addSubnet("127.0.0.0", 8, "ipv4")
inside.addSubnet("100.64.0.0", 10, "ipv4") // shared address space (RFC 6598)
inside.addAddress("::1", "ipv6")
inside.addSubnet("fc00::", 7, "ipv6") // unique local (RFC 4193)

/** Nothing is ever sent to such an address. An IPv4 address inside of IPv6 is judged as what it is. */
export const isForbiddenAddress = (address: string, network: Network = "any"): boolean => {
  const family = isIP(address)
  if (family === 0) return true
  const kind = family === 4 ? "ipv4" : "ipv6"
  return forbidden.check(address, kind) || (network === "internet" && inside.check(address, kind))
}

class Forbidden extends Error {}

const checkedLookup = (network: Network): LookupFunction => (name, options, callback) => {
  resolveName(name, { ...options, all: true }, (error, addresses) => {
    if (error !== null) return callback(error, "")
    const good = addresses.filter(({ address }) => !isForbiddenAddress(address, network))
    const [first] = good
    if (first === undefined) return callback(new Forbidden(`nothing is sent to ${addresses[0]?.address ?? name}`), "")
    if (options.all === true) return callback(null, good)
    return callback(null, first.address, first.family)
  })
}

const certificateCodes = /^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO|HOSTNAME_MISMATCH|EPROTO)/

const failure = (error: Error & { readonly code?: string }): OutboundFailed => {
  if (error instanceof Forbidden) return new OutboundFailed({ reason: "forbidden", detail: error.message })
  const code = error.code ?? ""
  const detail = code === "" || error.message.includes(code) ? error.message : `${error.message} (${code})`
  if (/^(ENOTFOUND|EAI_)/.test(code)) return new OutboundFailed({ reason: "name", detail })
  return new OutboundFailed({ reason: certificateCodes.test(code) ? "certificate" : "connection", detail })
}

/** Reads until the end or the bound, whichever comes first. */
const readBounded = (response: IncomingMessage, maximum: number, done: (body: Buffer, cut: boolean) => void) => {
  const chunks: Array<Buffer> = []
  let size = 0
  response.on("data", (chunk: Buffer) => {
    const room = maximum - size
    chunks.push(chunk.subarray(0, room))
    size += Math.min(chunk.length, room)
    if (chunk.length > room) {
      done(Buffer.concat(chunks), true)
      response.destroy()
    }
  })
  response.on("end", () => done(Buffer.concat(chunks), false))
}

/** Sends and reads the answer, whatever its status. */
export const post = (request: OutboundRequest): Effect.Effect<OutboundAnswer, OutboundFailed> =>
  Effect.callback<OutboundAnswer, OutboundFailed>((resume) => {
    const { url } = request
    const host = url.hostname.replace(/^\[|\]$/g, "")
    const network = request.network ?? "any"
    if (isIP(host) !== 0 && isForbiddenAddress(host, network)) {
      return resume(Effect.fail(new OutboundFailed({ reason: "forbidden", detail: `nothing is sent to ${host}` })))
    }
    const body = typeof request.body === "string" ? Buffer.from(request.body, "utf8") : request.body
    const send = url.protocol === "https:" ? httpsRequest : httpRequest
    const sent: ClientRequest = send(url, {
      method: "POST",
      headers: { "user-agent": "Nightjar", ...request.headers, "content-length": body.length },
      lookup: checkedLookup(network),
      // A connection of its own: what is kept open could outlive the check of its address.
      agent: false,
    })
    sent.on("error", (error) => resume(Effect.fail(failure(error))))
    sent.on("response", (response) => {
      response.on("error", (error) => resume(Effect.fail(failure(error))))
      readBounded(
        response,
        request.maxAnswerBytes,
        (read, cut) =>
          resume(Effect.succeed({ status: response.statusCode ?? 0, headers: response.headers, body: read, cut })),
      )
    })
    sent.end(body)
    return Effect.sync(() => sent.destroy())
  }).pipe(Effect.timeoutOrElse({
    duration: request.timeoutMs,
    orElse: () =>
      Effect.fail(new OutboundFailed({ reason: "timeout", detail: `no answer within ${request.timeoutMs} ms` })),
  }))
