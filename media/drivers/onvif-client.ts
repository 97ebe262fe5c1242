/**
 * Requests to one ONVIF device over HTTP: signed by WS-Security (UsernameToken with digest), and by HTTP Digest where the device asks
 * for it.
 *
 * Invariants
 * 1. A reply has at most {@link maxReplyBytes} and a call its time limit, connecting and a second try with Digest included.
 * 2. All requests go to the host and port given, whatever addresses the device names; redirects are not followed.
 * 3. One request at a time. A call is sent twice only after 401, which says that it was not carried out.
 * 4. Whatever does not only read is asked about in the moment before it is sent (`DeviceOptions.allow`); an operation that nobody thought of is a command.
 * 5. The password is never sent: only digests of it (OASIS UsernameToken Profile 1.0; RFC 7616). HTTP Basic is refused.
 */
import {
  CameraAuthFailed,
  CameraRefused,
  CameraUnreachable,
  type DeviceError,
  maxDetail,
  OnvifOperationUnsupported,
} from "#schema/camera-device.ts"
import { Clock, Effect, Redacted, Schema, Semaphore } from "effect"
import { createHash, randomBytes } from "node:crypto"
import { type IncomingMessage, request } from "node:http"
import { Malformed } from "../codec/malformed.ts"
import type { DeviceOptions } from "../device.ts"
import { authorization, type Credentials, parseChallenges, strongest } from "../rtsp/auth.ts"
import { envelope, escaped, namespaceOf, readReply, type Reply, type ServiceName } from "./onvif-message.ts"

/** Largest replies of real devices (profiles of a camera with sixteen) are some 100 KiB. */
export const maxReplyBytes = 1 << 20

export interface OnvifCall<S extends Schema.Codec<unknown, unknown>> {
  readonly service: ServiceName
  /** Name of the operation as the WSDL has it. */
  readonly operation: string
  /** What stands in the request's element, as XML; its own namespace is the default one, `tt:` that of the schema. */
  readonly body?: string
  /** Of the response element. */
  readonly reply: S
  /** Before the clock is known; never signed. */
  readonly unsigned?: boolean
  /** Of the request's element, where not that of the service. */
  readonly namespace?: string
  /** Where not that of the service. */
  readonly path?: string
  /** As WS-Addressing has it, where not namespace and operation. */
  readonly action?: string
  /** More elements for the header, as XML. */
  readonly header?: string
  /** How much longer than the time limit the device may take, in milliseconds. */
  readonly waitMs?: number
  /** Told the whole reply before it is read. */
  readonly heard?: (reply: string) => void
}

export interface OnvifClient {
  readonly call: <S extends Schema.Codec<unknown, unknown>>(call: OnvifCall<S>) => Effect.Effect<S["Type"], DeviceError>
  /** Where a service answers, by the path of the address the device named. */
  readonly setPath: (service: ServiceName, path: string) => void
  readonly setClockOffset: (offsetMs: number) => void
}

interface HttpReply {
  readonly status: number
  readonly challenges: ReadonlyArray<string>
  readonly text: string
}

const unreachable = (reason: CameraUnreachable["reason"], detail: string) => new CameraUnreachable({ reason, detail })

/** Every value of a header that may come several times. */
const valuesOf = (message: IncomingMessage, name: string): ReadonlyArray<string> =>
  message.rawHeaders.flatMap((text, index) =>
    index % 2 === 0 && text.toLowerCase() === name ? [message.rawHeaders[index + 1] ?? ""] : []
  )

/** One POST, on a connection of its own that is gone when this ends. */
const post = (options: DeviceOptions, path: string, headers: Record<string, string>, body: string) =>
  Effect.callback<HttpReply, CameraUnreachable>((resume) => {
    const fail = (reason: CameraUnreachable["reason"], detail: string) =>
      resume(Effect.fail(unreachable(reason, detail)))
    try {
      const sent = request({
        host: options.host.replace(/^\[|\]$/g, ""),
        port: options.port,
        path,
        method: "POST",
        agent: false,
        headers: { ...headers, "content-length": Buffer.byteLength(body) },
      }, (message) => {
        const chunks: Array<Buffer> = []
        let bytes = 0
        message.on("data", (chunk: Buffer) => {
          bytes += chunk.length
          if (bytes > maxReplyBytes) {
            fail("tooLarge", `it sent more than ${maxReplyBytes} bytes`)
            sent.destroy()
          } else chunks.push(chunk)
        })
        message.on("end", () =>
          resume(Effect.succeed({
            status: message.statusCode ?? 0,
            challenges: valuesOf(message, "www-authenticate"),
            text: Buffer.concat(chunks).toString("utf8"),
          })))
        message.on("error", (error: NodeJS.ErrnoException) => fail("unreachable", error.code ?? "the connection broke"))
      })
      sent.on("error", (error: NodeJS.ErrnoException) => fail("unreachable", error.code ?? "the connection broke"))
      sent.end(body)
      return Effect.sync(() => sent.destroy())
    } catch (error) {
      fail("protocol", error instanceof Error ? error.message.slice(0, maxDetail) : "it cannot be asked")
      return Effect.void
    }
  })

const wsse = "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss"
/** `UsernameToken` with `PasswordDigest`: Base64(SHA-1(nonce + created + password)). */
const security = (credentials: Credentials, createdMs: number): string => {
  const nonce = randomBytes(16)
  const created = new Date(createdMs).toISOString()
  const digest = createHash("sha1").update(nonce).update(created).update(credentials.password, "utf8").digest("base64")
  return `<Security s:mustUnderstand="1" xmlns="${wsse}-wssecurity-secext-1.0.xsd"><UsernameToken>` +
    `<Username>${escaped(credentials.username)}</Username>` +
    `<Password Type="${wsse}-username-token-profile-1.0#PasswordDigest">${digest}</Password>` +
    `<Nonce EncodingType="${wsse}-soap-message-security-1.0#Base64Binary">${nonce.toString("base64")}</Nonce>` +
    `<Created xmlns="${wsse}-wssecurity-utility-1.0.xsd">${created}</Created></UsernameToken></Security>`
}

const read = (text: string): Effect.Effect<Reply, CameraUnreachable> =>
  Effect.try({
    try: () => readReply(text),
    catch: (error) => {
      if (error instanceof Malformed) return unreachable("protocol", `its reply cannot be read: ${error.detail}`)
      throw error
    },
  })

const unsupportedCodes = new Set([
  "ActionNotSupported",
  "OptionalActionNotImplemented",
  "ActionNotImplemented",
  "NoPTZProfile",
])
const authCodes = new Set(["NotAuthorized", "FailedAuthentication", "OperationProhibited", "InvalidSecurity"])

/** What a fault of SOAP means here. */
const faultError = (
  operation: string,
  { codes, reason }: { readonly codes: ReadonlyArray<string>; readonly reason: string },
) => {
  if (codes.some((code) => authCodes.has(code)) || /not ?authorized/i.test(reason)) {
    return new CameraAuthFailed({ detail: reason })
  }
  if (codes.some((code) => unsupportedCodes.has(code)) || /not (implemented|supported)/i.test(reason)) {
    return new OnvifOperationUnsupported({ operation, detail: reason })
  }
  return new CameraRefused({ operation, detail: reason === "" ? "without a reason" : reason })
}

const answerOf = <S extends Schema.Codec<unknown, unknown>>(
  { heard, operation, reply }: OnvifCall<S>,
  { status, text }: HttpReply,
): Effect.Effect<S["Type"], DeviceError> =>
  Effect.gen(function*() {
    if (status === 401) return yield* new CameraAuthFailed({ detail: "it answered 401" })
    if (status === 503 || status === 429) return yield* unreachable("busy", `it is busy (${status})`)
    if (status === 404 || (status >= 300 && status < 400)) {
      return yield* unreachable("protocol", `it has no ONVIF service there (${status})`)
    }
    const message = yield* Effect.mapError(read(text), (error) =>
      status === 200 ? error : unreachable("protocol", `it answered ${status}`))
    heard?.(text)
    if ("fault" in message) {
      return yield* faultError(operation, message.fault)
    }
    const name = `${operation.charAt(0).toLowerCase()}${operation.slice(1)}Response`
    const found = message.body[name]
    if (found === undefined) {
      return yield* unreachable("protocol", `it answered something else than ${operation}`)
    }
    return yield* Effect.mapError(Schema.decodeUnknownEffect(reply)(found), () =>
      unreachable("protocol", `its answer to ${operation} lacks what ONVIF asks for`))
  })

/** ONVIF names what only reads `Get…`; a subscription to events changes nothing of the camera. */
const onlyReads = ({ operation, service }: Pick<OnvifCall<Schema.Codec<unknown, unknown>>, "operation" | "service">) =>
  operation.startsWith("Get") || service === "events"

export const makeClient = Effect.fnUntraced(function*(options: DeviceOptions) {
  const permit = yield* Semaphore.make(1)
  const paths = new Map<ServiceName, string>([["device", "/onvif/device_service"]])
  const credentials = options.username === null ? null : {
    username: options.username,
    password: options.password === null ? "" : Redacted.value(options.password),
  }
  let clockOffsetMs = 0

  const exchange = Effect.fnUntraced(function*(call: OnvifCall<Schema.Codec<unknown, unknown>>, path: string) {
    const { body = "", header: more = "", namespace = namespaceOf(call.service), operation } = call
    const nowMs = yield* Clock.currentTimeMillis
    const header = credentials === null || call.unsigned === true ? "" : security(credentials, nowMs + clockOffsetMs)
    const text = envelope(header + more, `<${operation} xmlns="${namespace}">${body}</${operation}>`)
    const headers = {
      "content-type": `application/soap+xml; charset=utf-8; action="${call.action ?? `${namespace}/${operation}`}"`,
    }
    const allowed = options.allow === undefined || onlyReads(call) ?
      Effect.void :
      options.allow(operation === "SetSystemFactoryDefault" ? "reset" : "command")
    yield* allowed
    const first = yield* post(options, path, headers, text)
    if (first.status !== 401 || credentials === null) return first
    const challenge = strongest(parseChallenges(first.challenges))
    if (challenge === null || challenge.scheme === "basic") return first
    const proof = authorization(challenge, credentials, {
      method: "POST",
      url: path,
      count: 1,
      cnonce: randomBytes(8).toString("hex"),
    })
    yield* allowed
    return yield* post(options, path, { ...headers, authorization: proof }, text)
  })

  const client: OnvifClient = {
    call: (call) =>
      Effect.gen(function*() {
        const path = paths.get(call.service)
        // Who names no service is not asked at another path either.
        if (path === undefined) {
          return yield* new OnvifOperationUnsupported({
            operation: call.operation,
            detail: `it names no ${call.service} service`,
          })
        }
        return yield* answerOf(call, yield* exchange(call, call.path ?? path))
      }).pipe(
        Effect.timeoutOrElse({
          duration: options.requestTimeoutMs + (call.waitMs ?? 0),
          orElse: () => Effect.fail(unreachable("timeout", `it did not answer within ${options.requestTimeoutMs} ms`)),
        }),
        Semaphore.withPermit(permit),
      ),
    setPath: (service, path) => {
      paths.set(service, path)
    },
    setClockOffset: (offsetMs) => {
      clockOffsetMs = offsetMs
    },
  }
  return client
})
