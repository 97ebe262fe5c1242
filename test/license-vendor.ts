/**
 * A vendor: keys, licences, and a licence server on loopback that follows the protocol of `http/README.md` with a mind of its own.
 * Shares no code with the product but the names of the protocol.
 */
import canonicalize from "canonicalize"
import { Effect } from "effect"
import { CompactSign, type CryptoKey, exportJWK, generateKeyPair } from "jose"
import { createPublicKey, verify } from "node:crypto"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"

export interface Claims {
  readonly [name: string]: unknown
}

export interface VendorKey {
  readonly kid: string
  readonly privateKey: CryptoKey
  readonly jwk: Record<string, unknown>
}

export const vendorKey = (kid: string): Effect.Effect<VendorKey> =>
  Effect.promise(async () => {
    const { privateKey, publicKey } = await generateKeyPair("EdDSA", { crv: "Ed25519", extractable: true })
    return { kid, privateKey, jwk: { ...(await exportJWK(publicKey)), kid } }
  })

export const sign = (key: VendorKey, payload: unknown, header: Record<string, unknown> = {}) =>
  Effect.promise(() =>
    new CompactSign(new TextEncoder().encode(JSON.stringify(payload)))
      .setProtectedHeader({ alg: "EdDSA", typ: "nightjar-license+jws", kid: key.kid, ...header })
      .sign(key.privateKey)
  )

export const dayMs = 86_400_000
const iso = (ms: number) => new Date(ms).toISOString()

/** A licence of ten channels for a year, begun yesterday. */
export const claims = (nowMs: number, change: Claims = {}): Claims => ({
  licenseId: "L-1",
  customer: "Example Ltd.",
  features: ["analysis"],
  channels: 10,
  sessions: 3,
  issuedAt: iso(nowMs - dayMs),
  notBefore: iso(nowMs - dayMs),
  notAfter: iso(nowMs + 365 * dayMs),
  graceDays: 7,
  hardwareId: null,
  verifyDays: null,
  ...change,
})

/** Whether a paper was signed by the key it names: Ed25519 over the canonical JSON of everything but `signature`. */
export const signedByItself = (paper: Record<string, unknown>): boolean => {
  const { signature, ...rest } = paper
  const key = createPublicKey({ key: paper["publicKey"] as never, format: "jwk" })
  return verify(null, Buffer.from(canonicalize(rest)!), key, Buffer.from(String(signature), "base64url"))
}

/** What the server does next. */
export interface VendorMood {
  /** Status and body for every request instead of the protocol's. */
  answer: { readonly status: number; readonly body: string } | null
  /** Leases wait for approval. */
  pending: boolean
  /** What it says of a lease. */
  state: "active" | "suspended" | "revoked"
  /** Nonce in statements instead of the one it was asked with. */
  nonce: string | null
  /** Never answers. */
  silent: boolean
}

export interface Heard {
  readonly path: string
  readonly body: Record<string, unknown>
}

const readBody = async (request: IncomingMessage): Promise<Record<string, unknown>> => {
  const chunks: Array<Buffer> = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString("utf8")) as Record<string, unknown>
}

/** Listens on loopback until the scope closes. */
export const vendorServer = Effect.fnUntraced(function*(key: VendorKey, nowMs: () => number) {
  const mood: VendorMood = { answer: null, pending: false, state: "active", nonce: null, silent: false }
  const heard: Array<Heard> = []
  const good = new Set(["CODE-1234", "KEY-1234-ABCD"])
  let issued = 0

  const answer = async (path: string, body: Record<string, unknown>): Promise<readonly [number, unknown]> => {
    const request = body["request"] as Record<string, unknown> | undefined
    if (request !== undefined && !signedByItself(request)) return [400, { code: "bad_request", message: "not signed" }]
    if (path === "/v1/activations" || path === "/v1/leases") {
      if (!good.has(String(body["activationCode"] ?? body["key"]))) {
        return [403, { code: "unknown_code", message: "nobody bought this" }]
      }
      if (mood.pending) return [202, { state: "pending" }]
      issued++
      const lease = path === "/v1/leases" ? { verifyDays: 7 } : {}
      const payload = claims(nowMs(), {
        licenseId: `S-${issued}`,
        hardwareId: request?.["hardwareId"],
        ...lease,
      })
      return [200, { license: await Effect.runPromise(sign(key, payload)) }]
    }
    if (path === "/v1/leases/verify") {
      const statement = {
        licenseId: body["licenseId"],
        nonce: mood.nonce ?? body["nonce"],
        state: mood.state,
        time: iso(nowMs()),
      }
      const typ = "nightjar-license-statement+jws"
      return [200, { statement: await Effect.runPromise(sign(key, statement, { typ })) }]
    }
    if (path === "/v1/leases/release") {
      const receipt = body["receipt"] as Record<string, unknown>
      return signedByItself(receipt) ? [200, { released: true }] : [400, { code: "bad_receipt", message: "not signed" }]
    }
    return [404, { code: "not_found", message: "no such operation" }]
  }

  const handle = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await readBody(request)
    heard.push({ path: request.url ?? "", body })
    if (mood.silent) return
    const [status, json] = mood.answer === null ?
      await answer(request.url ?? "", body) :
      [mood.answer.status, null] as const
    response.writeHead(status, { "content-type": "application/json" })
    response.end(mood.answer === null ? JSON.stringify(json) : mood.answer.body)
  }

  const server = createServer((request, response) => {
    handle(request, response).catch(() => response.destroy())
  })
  yield* Effect.acquireRelease(
    Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))),
    () =>
      Effect.promise(() => {
        server.closeAllConnections()
        return new Promise<void>((resolve) => server.close(() => resolve()))
      }),
  )
  const address = server.address()
  const port = typeof address === "object" && address !== null ? address.port : 0
  return { url: `http://127.0.0.1:${port}`, mood, heard }
})
