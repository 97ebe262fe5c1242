/**
 * Other nodes as this one knows and asks them, whether they are members of its cluster or paired peers.
 *
 * Invariants
 * 1. Nothing is asked of a node that is neither a member nor paired, and nothing at an address but the one that was confirmed.
 * 2. Every request is proven by the key of this node (DPoP, RFC 9449), over TLS with the key learnt at pairing, or plain on loopback.
 * 3. An answer is bounded: its head comes within the request's time, its body is streamed or limited.
 */
import type { NodeId } from "#schema/common.ts"
import type { Fingerprint, NodeNotFound, NodeRelation, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Duration, type Effect, type Schema, type Scope, type Stream } from "effect"

/** A node that may be asked. */
export interface Peer {
  readonly nodeId: NodeId
  readonly name: string
  readonly relation: Extract<NodeRelation, "member" | "peer">
  /** `https://host:port`, `http` on loopback. */
  readonly address: string
  readonly fingerprint: Fingerprint
  /** Public keys, 32 bytes in base64url: Ed25519 and X25519. */
  readonly signingKey: string
  readonly transferKey: string
  /** Its reads of our media obey the resource groups that were given to it. */
  readonly mediaReadEnforcement: boolean
  /** Our administrator allows it to guard us: it may have the configuration with the passwords of cameras. */
  readonly guardianGranted: boolean
}

/** What is asked of a peer's HTTP interface. */
export interface PeerRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE"
  /** Path with query, below that node's root. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?:
    | { readonly json: Schema.Json }
    | { readonly stream: Stream.Stream<Uint8Array>; readonly contentType: string; readonly contentLength?: number }
  /** The user who asked for it here: the other node audits it by this name too. */
  readonly onBehalfOf?: string
  /** Until the head of the answer; ten seconds if left out. */
  readonly timeout?: Duration.Input
  /** Media that many may watch at once: it goes over connections of its own, so that heartbeats and commands do not wait behind it. */
  readonly bulk?: boolean
}

/** An answer with a status below 300 (206 among them); its body is read once, within the scope of the request. */
export interface PeerAnswer {
  readonly status: number
  /** Names in lower case. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: Stream.Stream<Uint8Array, PeerUnreachable>
}

type PeerFailure = NodeNotFound | PeerUnreachable | PeerRefused | DependencyUnavailable

export class Peers extends Context.Service<Peers, {
  readonly list: () => Effect.Effect<ReadonlyArray<Peer>, DependencyUnavailable>
  readonly get: (nodeId: NodeId) => Effect.Effect<Peer, NodeNotFound | DependencyUnavailable>
  /** The list at once and after each change of it; a slow reader sees the newest. */
  readonly changes: () => Effect.Effect<Stream.Stream<ReadonlyArray<Peer>>, DependencyUnavailable>
  /** Lets a peer guard this node, or no longer. */
  readonly grantGuardian: (
    nodeId: NodeId,
    granted: boolean,
  ) => Effect.Effect<Peer, NodeNotFound | DependencyUnavailable>
  /** The answer as a stream. */
  readonly send: (nodeId: NodeId, request: PeerRequest) => Effect.Effect<PeerAnswer, PeerFailure, Scope.Scope>
  /** The answer's JSON, at most 8 MiB, decoded. What does not fit the schema is `PeerRefused` with the code `bad_answer`. */
  readonly call: <A, I>(
    nodeId: NodeId,
    request: PeerRequest,
    schema: Schema.Codec<A, I>,
  ) => Effect.Effect<A, PeerFailure>
}>()("nightjar/actors/Peers") {}
