/**
 * {@link Peers}: asks members and peers over links that stay open.
 *
 * Invariants
 * 1. Whom it asks, where, and with which TLS key stands in the registry; a change of any of them opens a new link.
 * 2. Every request is proven anew. One that lacks a nonce of the other side is sent once more with it, and no more.
 * 3. A node with several addresses is asked at the first that shows its key; after a request that failed, that is looked at again
 *    before the next one. A line that works is never left.
 * 4. Nothing is remembered of an answer but the nonce that came with it.
 */
import { type KnownPeer, PeerRegistry } from "#actors/protocol/auth-federation.ts"
import { type Peer, type PeerAnswer, type PeerRequest, Peers } from "#actors/protocol/federation-peer.ts"
import { makeProof } from "#cluster/dpop.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import {
  bytesOf,
  type Link,
  type LinkAnswer,
  LinkFailed,
  type LinkRequest,
  openLink,
  PlainNetworks,
  reachedAt,
} from "#cluster/peer-link.ts"
import { makePeerToken, peerTokenSeconds } from "#cluster/peer-token.ts"
import type { NodeId } from "#schema/common.ts"
import { type NodeNotFound, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Exit, Layer, Redacted, Schema, Scope, Semaphore, Stream } from "effect"

/** Until the head of an answer. */
const patience = "10 seconds"
const largestJson = 8 << 20
/** A problem document, and room for what others might say. */
const largestProblem = 64 << 10

/** A node as we talk to it. */
interface Line {
  readonly key: string
  readonly link: Link
  readonly scope: Scope.Closeable
  nonce: string | null
  /** A request failed: the node may have gone to another of its addresses. */
  doubted: boolean
  /** Our own token, where the node is a member. */
  own: { readonly token: Redacted.Redacted; readonly renewAtMs: number } | null
}

const shown = (peer: KnownPeer): Peer => ({
  nodeId: peer.nodeId,
  name: peer.name,
  relation: peer.relation,
  address: peer.address,
  fingerprint: peer.fingerprint,
  signingKey: peer.signingKey,
  transferKey: peer.transferKey,
  mediaReadEnforcement: peer.mediaReadEnforcement,
  guardianGranted: peer.guardianGranted,
})

const Problem = Schema.fromJsonString(
  Schema.Struct({ code: Schema.optionalKey(Schema.String), detail: Schema.optionalKey(Schema.String) }),
)
const decodeProblem = Schema.decodeUnknownEffect(Problem)
const decodeJson = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Json))

const unreachable = (nodeId: NodeId) => ({ detail }: LinkFailed) => new PeerUnreachable({ nodeId, reason: detail })

/** What an answer of 300 or above says. */
const refusalOf = Effect.fnUntraced(function*(nodeId: NodeId, { body, status }: LinkAnswer) {
  const text = yield* bytesOf(body, largestProblem).pipe(Effect.orElseSucceed(() => Buffer.alloc(0)))
  const said = yield* decodeProblem(text.toString("utf8")).pipe(Effect.orElseSucceed((): typeof Problem.Type => ({})))
  const { code = "unknown", detail = `it answered ${status}` } = said
  return new PeerRefused({ nodeId, theirStatus: status, theirCode: code.slice(0, 128), reason: detail.slice(0, 1000) })
})

const bodyOf = ({ body }: PeerRequest): Pick<LinkRequest, "body" | "headers"> => {
  if (body === undefined) return { body: null, headers: {} }
  if ("json" in body) {
    return { body: { bytes: Buffer.from(JSON.stringify(body.json)) }, headers: { "content-type": "application/json" } }
  }
  return {
    body: { stream: body.stream, contentLength: body.contentLength ?? null },
    headers: { "content-type": body.contentType },
  }
}

const makeLines = Effect.gen(function*() {
  /** By node; media have one of their own. */
  const lines = new Map<string, Line>()
  const turns = new Map<string, Semaphore.Semaphore>()
  const turn = (name: string) => {
    const one = turns.get(name) ?? Semaphore.makeUnsafe(1)
    turns.set(name, one)
    return one
  }
  const plain = yield* PlainNetworks
  const layerScope = yield* Effect.scope

  const close = (name: string) =>
    Effect.suspend(() => {
      const line = lines.get(name)
      lines.delete(name)
      return line === undefined ? Effect.void : Scope.close(line.scope, Exit.void)
    })

  /** The line to a node, opened where there is none or the node has moved. */
  const lineTo = (peer: KnownPeer, bulk: boolean) => {
    const name = bulk ? `${peer.nodeId} media` : peer.nodeId
    const key = `${[...peer.addresses, peer.address].join(" ")}\n${peer.tlsPin ?? ""}`
    return turn(name).withPermits(1)(Effect.gen(function*() {
      const known = lines.get(name)
      if (known?.key === key && !known.doubted) return known
      const several = peer.addresses.length > 0
      const address = several ? yield* reachedAt(peer, plain) : peer.address
      if (known?.key === key && known.link.destination.address === address) {
        known.doubted = false
        return known
      }
      yield* close(name)
      const scope = yield* Scope.fork(layerScope)
      const link = yield* openLink({ address, tlsPin: peer.tlsPin }, plain).pipe(
        Scope.provide(scope),
        Effect.onError(() => Scope.close(scope, Exit.void)),
      )
      const line: Line = { key, link, scope, nonce: null, doubted: false, own: null }
      lines.set(name, line)
      return line
    }))
  }
  return {
    lineTo,
    /** Ends what is open to nodes that are not among these. */
    keepOnly: (nodeIds: ReadonlySet<string>) =>
      Effect.forEach(
        [...turns.keys()].filter((name) => !nodeIds.has(name.split(" ", 1)[0] ?? "")),
        (name) => Effect.tap(turn(name).withPermits(1)(close(name)), () => Effect.sync(() => turns.delete(name))),
        { discard: true, concurrency: "unbounded" },
      ),
  }
})

const make = Effect.gen(function*() {
  const registry = yield* PeerRegistry
  const { nodeId: self, signing } = yield* NodeIdentity
  const lines = yield* makeLines
  yield* registry.changes.pipe(
    Stream.runForEach((peers) => lines.keepOnly(new Set(peers.map((peer) => peer.nodeId)))),
    Effect.forkScoped,
  )

  /** What opens the other node: its token for us, or, of a member, one by our own key. */
  const tokenFor = Effect.fnUntraced(function*(peer: KnownPeer, line: Line, nowMs: number) {
    if (peer.pairing !== null) return peer.pairing.token
    if (line.own !== null && line.own.renewAtMs > nowMs) return line.own.token
    const token = yield* makePeerToken({
      issuer: self,
      key: signing.privateKey,
      audience: peer.nodeId,
      subject: self,
      subjectKey: signing.publicKey,
      jti: yield* uuid7,
      nowMs,
    })
    line.own = { token, renewAtMs: nowMs + peerTokenSeconds * 500 }
    return token
  })

  const attempt = Effect.fnUntraced(function*(peer: KnownPeer, line: Line, request: PeerRequest) {
    const nowMs = yield* Clock.currentTimeMillis
    const token = Redacted.value(yield* tokenFor(peer, line, nowMs))
    const proof = yield* makeProof({
      key: signing,
      method: request.method,
      address: `${line.link.destination.address}${request.path}`,
      token,
      nonce: line.nonce,
      onBehalfOf: request.onBehalfOf ?? null,
      jti: yield* uuid7,
      nowMs,
    })
    const { body, headers } = bodyOf(request)
    const answer = yield* line.link.request({
      method: request.method,
      path: request.path,
      headers: { ...request.headers, ...headers, authorization: `DPoP ${token}`, dpop: proof },
      body,
      timeout: request.timeout ?? patience,
    }).pipe(Effect.tapError(() =>
      Effect.sync(() => {
        line.doubted = peer.addresses.length > 0
      })
    ))
    line.nonce = answer.headers["dpop-nonce"] ?? line.nonce
    return answer
  })

  const send = Effect.fnUntraced(
    function*(
      nodeId: NodeId,
      request: PeerRequest,
    ): Effect.fn.Return<PeerAnswer, NodeNotFound | PeerUnreachable | PeerRefused, Scope.Scope> {
      const peer = yield* registry.get(nodeId)
      const asked = Effect.gen(function*() {
        const line = yield* lines.lineTo(peer, request.bulk === true)
        const first = yield* attempt(peer, line, request)
        if (first.status !== 401) return first
        const refusal = yield* refusalOf(nodeId, first)
        return refusal.theirCode === "use_dpop_nonce" ? yield* attempt(peer, line, request) : yield* refusal
      })
      const answer = yield* asked.pipe(
        Effect.catchTag("LinkFailed", (error) => Effect.fail(unreachable(nodeId)(error))),
      )
      if (answer.status >= 300) return yield* yield* refusalOf(nodeId, answer)
      return { ...answer, body: Stream.mapError(answer.body, unreachable(nodeId)) }
    },
  )

  return Peers.of({
    list: () => Effect.map(registry.list, (peers) => peers.map(shown)),
    get: (nodeId) => Effect.map(registry.get(nodeId), shown),
    changes: () => Effect.succeed(Stream.map(registry.changes, (peers) => peers.map(shown))),
    grantGuardian: (nodeId, granted) => Effect.map(registry.set(nodeId, { guardianGranted: granted }), shown),
    send,
    call: (nodeId, request, schema) =>
      Effect.scoped(Effect.gen(function*() {
        const { body, status } = yield* send(nodeId, request)
        const bytes = yield* bytesOf(
          Stream.mapError(body, ({ reason }) => new LinkFailed({ detail: reason })),
          largestJson,
        )
          .pipe(Effect.mapError(unreachable(nodeId)))
        return yield* decodeJson(bytes.toString("utf8")).pipe(
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
      })),
  })
})

export const layer: Layer.Layer<Peers, never, PeerRegistry | NodeIdentity> = Layer.effect(Peers, make)
