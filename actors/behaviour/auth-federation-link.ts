/**
 * Words between two nodes that are not paired yet, or not any more: JSON over a link of its own.
 *
 * Invariants
 * 1. An answer is at most {@link largestAnswer} bytes, decoded or refused.
 */
import { makeProof } from "#cluster/dpop.ts"
import type { NodeKey } from "#cluster/identity.ts"
import { bytesOf, type Link, type LinkFailed, openLink, type PlainNetworks, reachedAt } from "#cluster/peer-link.ts"
import type { NodeId } from "#schema/common.ts"
import { PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Redacted, Schema, type Scope } from "effect"
import type { KnownPeer } from "../protocol/auth-federation.ts"

const largestAnswer = 64 << 10
const patience = "8 seconds"

const Problem = Schema.Struct({ code: Schema.optionalKey(Schema.String), detail: Schema.optionalKey(Schema.String) })
const decodeProblem = Schema.decodeUnknownEffect(Schema.fromJsonString(Problem))
const decodeJson = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))

export interface Words {
  readonly method: "GET" | "POST" | "DELETE"
  readonly path: string
  readonly json?: Schema.Json
  readonly headers?: Readonly<Record<string, string>>
}

export const away = (nodeId: NodeId) => ({ detail }: LinkFailed) => new PeerUnreachable({ nodeId, reason: detail })

const say = (link: Link, words: Words) =>
  Effect.scoped(Effect.gen(function*() {
    const answer = yield* link.request({
      method: words.method,
      path: words.path,
      headers: {
        accept: "application/json",
        ...words.json === undefined ? {} : { "content-type": "application/json" },
        ...words.headers,
      },
      body: words.json === undefined ? null : { bytes: Buffer.from(JSON.stringify(words.json)) },
      timeout: patience,
    })
    const text = (yield* bytesOf(answer.body, largestAnswer)).toString("utf8")
    return { ...answer, text }
  }))

/** What the other side answers; its refusal is {@link PeerRefused}. */
export const exchange = Effect.fnUntraced(
  function*<A, I>(link: Link, nodeId: NodeId, words: Words, schema: Schema.Codec<A, I>) {
    const { status, text } = yield* Effect.mapError(say(link, words), away(nodeId))
    if (status >= 300) {
      const said = yield* Effect.orElseSucceed(decodeProblem(text), (): typeof Problem.Type => ({}))
      const { code = "unknown", detail = `it answered ${status}` } = said
      return yield* new PeerRefused({
        nodeId,
        theirStatus: status,
        theirCode: code.slice(0, 128),
        reason: detail.slice(0, 1000),
      })
    }
    return yield* decodeJson(text).pipe(
      Effect.flatMap(Schema.decodeUnknownEffect(Schema.toCodecJson(schema))),
      Effect.mapError(() =>
        new PeerRefused({
          nodeId,
          theirStatus: status,
          theirCode: "bad_answer",
          reason: "Its answer is not what was asked for",
        })
      ),
    )
  },
)

/** Tells a peer that this node has ended the pairing, with the token that it gave us. Fails where it does not hear. */
export const farewell = (
  peer: KnownPeer,
  key: NodeKey,
  plain: typeof PlainNetworks.Service,
): Effect.Effect<void, LinkFailed> =>
  Effect.scoped(Effect.gen(function*(): Effect.fn.Return<void, LinkFailed, Scope.Scope> {
    if (peer.pairing === null) return
    const token = Redacted.value(peer.pairing.token)
    const address = yield* reachedAt(peer, plain)
    const link = yield* openLink({ address, tlsPin: peer.tlsPin }, plain)
    const path = "/auth/api/v1/federation/peer"
    let nonce: string | null = null
    // The first time without a nonce, which is refused with one.
    for (let attempt = 0; attempt < 2; attempt++) {
      const proof: string = yield* makeProof({
        key,
        method: "DELETE",
        address: `${address}${path}`,
        token,
        nonce,
        onBehalfOf: null,
        jti: yield* uuid7,
        nowMs: yield* Clock.currentTimeMillis,
      })
      const headers: Record<string, string> = { authorization: `DPoP ${token}`, dpop: proof }
      const answer: Effect.Success<ReturnType<typeof say>> = yield* say(link, { method: "DELETE", path, headers })
      if (answer.status !== 401) return
      nonce = answer.headers["dpop-nonce"] ?? null
    }
  }))
