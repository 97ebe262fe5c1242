/** Somebody else's server for webhooks and push messages: remembers what came, answers as it is told. Shares no code with the product. */
import { Effect } from "effect"
import { createDecipheriv, createECDH, createHmac, hkdfSync, randomBytes } from "node:crypto"
import { createServer, type IncomingHttpHeaders } from "node:http"
import type { AddressInfo } from "node:net"

export interface Came {
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

export interface Answer {
  readonly status: number
  readonly headers?: Record<string, string>
  readonly body?: string
}

/** Listens on loopback until the scope closes. `answers` are used up one by one; then it is 200. */
export const receiver = Effect.gen(function*() {
  const came: Array<Came> = []
  const answers: Array<Answer> = []
  const server = createServer((request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk: Buffer) => chunks.push(chunk))
    request.on("end", () => {
      came.push({ path: request.url ?? "", headers: request.headers, body: Buffer.concat(chunks) })
      const { body = "", headers = {}, status } = answers.shift() ?? { status: 200 }
      response.writeHead(status, headers).end(body)
    })
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))),
    () =>
      Effect.promise(() => {
        server.closeAllConnections()
        return new Promise<void>((resolve) => server.close(() => resolve()))
      }),
  )
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, came, answers }
})

/** Standard Webhooks 1.0, "signature scheme", by hand. */
export const webhookSignature = (secret: string, { body, headers }: Came): string => {
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64")
  const signed = `${String(headers["webhook-id"])}.${String(headers["webhook-timestamp"])}.${body.toString("utf8")}`
  return `v1,${createHmac("sha256", key).update(signed).digest("base64")}`
}

/** A browser's side of a push subscription, by RFC 8291 and RFC 8188. */
export const browser = () => {
  const ecdh = createECDH("prime256v1")
  ecdh.generateKeys()
  const auth = randomBytes(16)
  const hkdf = (secret: Buffer, salt: Buffer, info: Buffer, bytes: number) =>
    Buffer.from(hkdfSync("sha256", secret, salt, info, bytes))
  return {
    keys: { p256dh: ecdh.getPublicKey().toString("base64url"), auth: auth.toString("base64url") },
    decrypt: (body: Buffer): string => {
      const salt = body.subarray(0, 16)
      const idLength = body[20]!
      const sender = body.subarray(21, 21 + idLength)
      const info = Buffer.concat([Buffer.from("WebPush: info\0"), ecdh.getPublicKey(), sender])
      const secret = hkdf(ecdh.computeSecret(sender), auth, info, 32)
      const key = hkdf(secret, salt, Buffer.from("Content-Encoding: aes128gcm\0"), 16)
      const nonce = hkdf(secret, salt, Buffer.from("Content-Encoding: nonce\0"), 12)
      const record = body.subarray(21 + idLength)
      const opening = createDecipheriv("aes-128-gcm", key, nonce).setAuthTag(record.subarray(-16))
      const plain = Buffer.concat([opening.update(record.subarray(0, -16)), opening.final()])
      // The last record ends in 0x02 and padding.
      return plain.subarray(0, plain.lastIndexOf(2)).toString("utf8")
    },
  }
}
