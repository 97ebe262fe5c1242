/**
 * TLS of the HTTP server: one port, a certificate that may change while it serves, and a hint for whoever comes in clear text.
 *
 * Invariants
 * 1. TLS 1.2 and 1.3 only (RFC 8996). A new certificate holds for the next connection; open ones stay.
 * 2. Nothing of the interface is served in clear text on this port: a plain request is sent to `https:` (RFC 9110, section
 *    15.4.9), or told so where it names no host.
 * 3. Who connects has {@link patienceMs} for the first byte, and as long for the handshake.
 */
import { Context, Effect, type Redacted, Redacted as Redact, type Scope, Stream, SubscriptionRef } from "effect"
import { createServer, type IncomingMessage, type Server, type ServerOptions, type ServerResponse } from "node:http"
import * as https from "node:https"
import type { Socket } from "node:net"

/** What the server shows. */
export interface ServerCertificate {
  /** PEM, with intermediate certificates after it. */
  readonly certificate: string
  readonly privateKey: Redacted.Redacted
  /** SHA-256: 32 pairs of hexadecimal digits with colons. */
  readonly fingerprint: string
}

export type CertificateSource = SubscriptionRef.SubscriptionRef<ServerCertificate>

/** Fingerprint of the certificate in use; `null` where the server speaks no TLS itself. */
export const ServedFingerprint = Context.Reference<Effect.Effect<string | null>>("nightjar/http/ServedFingerprint", {
  defaultValue: () => Effect.succeed(null),
})

const patienceMs = 20_000
/** RFC 8446, appendix B: how a TLS connection begins (a handshake record). */
const handshakeRecord = 22

const contextOf = ({ certificate, privateKey }: ServerCertificate) => ({
  cert: certificate,
  key: Redact.value(privateKey),
  minVersion: "TLSv1.2" as const,
})

const hostPattern = /^(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::\d{1,5})?$/

/** Answers a request that came in clear text. */
const sendOn = (request: IncomingMessage, response: ServerResponse) => {
  const { host = "" } = request.headers
  const target = hostPattern.test(host) && request.url?.startsWith("/") === true ?
    { location: `https://${host}${request.url}` } :
    {}
  // 308 keeps the method and the body; a client that follows it sends them encrypted.
  response.writeHead("location" in target ? 308 : 400, {
    ...target,
    "content-type": "text/plain; charset=utf-8",
    "cache-control": "no-store",
    connection: "close",
  })
  response.end("This port speaks HTTPS.\n")
}

/** A server over TLS; everything else about it is as `options` say. */
export const tlsServer = (
  options: ServerOptions,
  source: CertificateSource,
): Effect.Effect<Server, never, Scope.Scope> =>
  Effect.gen(function*() {
    const first = yield* SubscriptionRef.get(source)
    const server = https.createServer({ ...options, ...contextOf(first), handshakeTimeout: patienceMs })
    const plain = createServer({ ...options, keepAlive: false }, sendOn)
    const waiting = new Set<Socket>()

    const encrypted = server.listeners("connection")
    server.removeAllListeners("connection")
    server.on("connection", (socket: Socket) => {
      waiting.add(socket)
      const giveUp = () => socket.destroy()
      const forget = () => {
        waiting.delete(socket)
        socket.setTimeout(0)
        socket.off("timeout", giveUp)
        socket.off("error", giveUp)
        socket.off("close", forget)
      }
      socket.setTimeout(patienceMs)
      socket.on("timeout", giveUp)
      socket.on("error", giveUp)
      socket.on("close", forget)
      socket.once("readable", () => {
        const bytes: Buffer | null = socket.read()
        forget()
        // The other side closed without a word.
        if (bytes === null) {
          socket.destroy()
          return
        }
        socket.unshift(bytes)
        if (bytes[0] === handshakeRecord) { for (const listener of encrypted) listener.call(server, socket) }
        else plain.emit("connection", socket)
      })
    })
    // Scanners and browsers that do not trust the certificate: nothing that the log of this node should fill with.
    server.on("tlsClientError", (_error, socket) => socket.destroy())

    // Whoever cuts the connections of this server means these as well: its end waits for them.
    const cut = server.closeAllConnections.bind(server)
    server.closeAllConnections = () => {
      cut()
      plain.closeAllConnections()
      for (const socket of waiting) socket.destroy()
    }
    yield* SubscriptionRef.changes(source).pipe(
      Stream.drop(1),
      Stream.runForEach((next) => Effect.sync(() => server.setSecureContext(contextOf(next)))),
      Effect.forkScoped,
    )
    return server
  })
