/**
 * Another node as far as a node can tell: it has keys, is paired by the words of pairing and an administrator's confirmation, and asks
 * with its token and a proof for each request. It does not listen, so nothing reaches it.
 */
import { makeProof } from "#cluster/dpop.ts"
import { commitmentTo, signTranscript } from "#cluster/pairing.ts"
import { makePeerToken } from "#cluster/peer-token.ts"
import { NodeId } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Effect, Redacted } from "effect"
import { generateKeyPairSync, type KeyObject, randomBytes } from "node:crypto"

const publicOf = (key: KeyObject): string => key.export({ format: "jwk" })["x"] as string

export interface PeerKey {
  readonly privateKey: KeyObject
  /** 32 bytes in base64url. */
  readonly publicKey: string
}

export const peerKey = (): PeerKey => {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519")
  return { privateKey, publicKey: publicOf(publicKey) }
}

type Json = Readonly<Record<string, unknown>>

const post = async (base: string, path: string, body: unknown): Promise<Json> => {
  const response = await fetch(`${base}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`POST ${path}: ${response.status} ${text}`)
  return JSON.parse(text) as Json
}

export class PeerCaller {
  readonly nodeId: NodeId
  readonly key: PeerKey
  readonly token: string
  readonly #base: string
  #nonce: string | null = null

  constructor(base: string, nodeId: NodeId, key: PeerKey, token: string) {
    this.#base = base
    this.nodeId = nodeId
    this.key = key
    this.token = token
  }

  /** `Authorization` and `DPoP` of one request; by another key, they are those of a thief. */
  async headers(method: string, path: string, key: PeerKey = this.key): Promise<Record<string, string>> {
    const proof = await Effect.runPromise(Effect.gen({ self: this }, function*() {
      return yield* makeProof({
        key,
        method,
        address: `${this.#base}${path}`,
        token: this.token,
        nonce: this.#nonce,
        onBehalfOf: null,
        jti: yield* uuid7,
        nowMs: Date.now(),
      })
    }))
    return { authorization: `DPoP ${this.token}`, dpop: proof }
  }

  /** Asks with a proof, and once more where the node wants its nonce in it. */
  async fetch(method: string, path: string, init: RequestInit = {}, key: PeerKey = this.key): Promise<Response> {
    for (let attempt = 0;; attempt++) {
      const headers = { ...init.headers as Record<string, string>, ...await this.headers(method, path, key) }
      const response = await fetch(`${this.#base}${path}`, { ...init, method, headers })
      this.#nonce = response.headers.get("dpop-nonce") ?? this.#nonce
      if (attempt > 0 || response.headers.get("www-authenticate")?.includes("use_dpop_nonce") !== true) return response
      await response.body?.cancel()
    }
  }
}

/** Asks the node at `base` for a pairing as one of this name would; `confirm` does what its administrator does with the request. */
export const pairedCaller = async (
  { base, nodeId: target }: { readonly base: string; readonly nodeId: string },
  name: string,
  confirm: (requestId: string) => Promise<unknown>,
): Promise<PeerCaller> => {
  const key = peerKey()
  const nodeId = NodeId.make(await Effect.runPromise(uuid7))
  const asking = {
    nodeId,
    name,
    version: "1.0",
    // Nobody listens there.
    address: "http://127.0.0.1:1",
    tlsPin: null,
    signingKey: key.publicKey,
    transferKey: publicOf(generateKeyPairSync("x25519").publicKey),
  }
  const pair = "/auth/api/v1/federation/pair/request"
  const askingNonce = randomBytes(32).toString("base64url")
  const offer = { ...asking, target, commitment: commitmentTo(asking, askingNonce) }
  const asked = await post(base, pair, offer) as Json & typeof asking & { requestId: string; nonce: string }
  await post(base, `${pair}/${asked.requestId}/reveal`, { nonce: askingNonce })
  await confirm(asked.requestId)
  const own = await Effect.runPromise(Effect.gen(function*() {
    return yield* makePeerToken({
      issuer: nodeId,
      key: key.privateKey,
      audience: nodeId,
      subject: asked.nodeId,
      subjectKey: asked.signingKey,
      jti: yield* uuid7,
      nowMs: Date.now(),
    })
  }))
  const claimed = await post(base, `${pair}/${asked.requestId}/claim`, {
    signature: signTranscript(key.privateKey, "claim", { asking, asked, askingNonce, askedNonce: asked.nonce }),
    token: Redacted.value(own),
    expiresIn: 86_400,
  })
  return new PeerCaller(base, nodeId, key, claimed["token"] as string)
}
