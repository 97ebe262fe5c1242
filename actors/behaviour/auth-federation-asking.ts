/**
 * The asking side of a pairing: asks, reveals, shows the code, polls until the other administrator has decided, and claims.
 *
 * Invariants
 * 1. Nothing is claimed before our own administrator has compared: by the fingerprint given with the request, or by the code.
 * 2. The other side has signed what both said, its TLS key among it, and shows that same TLS key on the wire: what the code or the
 *    fingerprint vouches for is whom we talk to.
 * 3. It asks no more often than it was told, five seconds less often each time it is told to slow down (RFC 8628, section 3.5).
 * 4. Bounds: {@link mostOpen} open requests, {@link mostKept} altogether.
 */
import { thumbprintOf } from "#cluster/dpop.ts"
import type { NodeKey } from "#cluster/identity.ts"
import { commitmentTo, comparisonCodeOf, hasSigned, type PairingTranscript, signTranscript } from "#cluster/pairing.ts"
import { learnTlsPin, type Link, openLink, type PlainNetworks } from "#cluster/peer-link.ts"
import {
  type NodeIntroduction,
  type OutgoingPairing,
  PairAnswer,
  type PairAsk,
  type PairConfirm,
  PairingMismatch,
  PairingNotFound,
  PairingNotOpen,
  PairProof,
  type PairState,
  PairStatus,
  PeerTokenAnswer,
} from "#schema/auth-federation.ts"
import type { EpochMs, NodeId } from "#schema/common.ts"
import { Fingerprint, PeerRefused, type PeerUnreachable } from "#schema/federation.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Clock, Effect, Exit, Redacted, Scope } from "effect"
import { randomBytes } from "node:crypto"
import { openMs } from "./auth-federation-asked.ts"
import { away, exchange } from "./auth-federation-link.ts"

const path = "/auth/api/v1/federation/pair/request"
const mostOpen = 8
const mostKept = 32
/** Between two questions at least, whatever the other side says. */
const shortestInterval = 2
const longestInterval = 60

interface Outgoing {
  readonly id: string
  readonly answer: PairAnswer
  /** Where it was dialled. */
  readonly address: string
  readonly transcript: PairingTranscript
  readonly link: Link
  readonly scope: Scope.Closeable
  readonly createdMs: EpochMs
  state: PairState
  confirmed: boolean
  grantGuardian: boolean
  reason: string
}

/** The other side has given its token: the pairing can be kept. */
export interface Paired {
  readonly other: NodeIntroduction
  readonly token: Redacted.Redacted
  readonly expiresAtMs: EpochMs
  readonly grantGuardian: boolean
}

export interface AskingOptions {
  readonly plain: typeof PlainNetworks.Service
  readonly key: NodeKey
  /** A token of ours for the other side, bound to its key. */
  readonly issue: (
    peer: { readonly nodeId: NodeId; readonly signingKey: string },
  ) => Effect.Effect<{ readonly token: Redacted.Redacted; readonly expiresAtMs: EpochMs }>
  /** The token is one of that node for us. */
  readonly isToken: (token: string, issuer: NodeIntroduction) => Effect.Effect<boolean>
  readonly keep: (paired: Paired) => Effect.Effect<void, DependencyUnavailable>
}

const shown = (one: Outgoing): OutgoingPairing => ({
  requestId: one.id,
  nodeId: one.answer.nodeId,
  name: one.answer.name,
  address: one.address,
  fingerprint: Fingerprint.make(thumbprintOf(one.answer.signingKey)),
  comparisonCode: comparisonCodeOf(one.transcript),
  state: one.state,
  confirmed: one.confirmed,
  reason: one.reason,
  createdAt: one.createdMs,
  expiresAt: one.createdMs + openMs,
})

const isOpen = ({ state }: Outgoing) => state === "pending" || state === "confirmed"

/** Asks, hears the answer, reveals: everything until there is a code to compare. */
const converse = Effect.fnUntraced(
  function*(
    nodeId: NodeId,
    ask: PairAsk & { readonly address: string },
    self: NodeIntroduction,
    plain: AskingOptions["plain"],
  ) {
    const tlsPin = yield* learnTlsPin(ask.address)
    const link = yield* openLink({ address: ask.address, tlsPin }, plain)
    const askingNonce = randomBytes(32).toString("base64url")
    const offer = { ...self, target: nodeId, commitment: commitmentTo(self, askingNonce) }
    const answer = yield* exchange(link, nodeId, { method: "POST", path, json: offer }, PairAnswer)
    if (answer.nodeId !== nodeId) {
      return yield* new PairingMismatch({ detail: "Another node answers at this address" })
    }
    if (answer.tlsPin !== tlsPin) {
      const detail = "It shows another TLS key than it says is its own: somebody stands in between, or a proxy"
      return yield* new PairingMismatch({ detail })
    }
    if (ask.fingerprint !== undefined && ask.fingerprint !== thumbprintOf(answer.signingKey)) {
      return yield* new PairingMismatch({ detail: "The node that answers has another fingerprint" })
    }
    const transcript = { asking: self, asked: answer, askingNonce, askedNonce: answer.nonce }
    const reveal = { method: "POST", path: `${path}/${answer.requestId}/reveal`, json: { nonce: askingNonce } } as const
    const { signature } = yield* exchange(link, nodeId, reveal, PairProof)
    if (!hasSigned("answer", transcript, signature)) {
      return yield* new PairingMismatch({ detail: "The answer is not signed by the key that it names" })
    }
    return { answer, link, transcript }
  },
)

/** Requests of this node to others. */
export const makeAsking = Effect.fnUntraced(function*(options: AskingOptions) {
  const layerScope = yield* Effect.scope
  let known: ReadonlyArray<Outgoing> = []

  const end = (one: Outgoing, state: PairState, reason: string) =>
    Effect.suspend(() => {
      one.state = state
      one.reason = reason
      return Scope.close(one.scope, Exit.void)
    })

  const claim = Effect.fnUntraced(function*(one: Outgoing) {
    const { answer, link, transcript } = one
    const own = yield* options.issue(answer)
    const nowMs = yield* Clock.currentTimeMillis
    const json = {
      signature: signTranscript(options.key.privateKey, "claim", transcript),
      token: Redacted.value(own.token),
      expiresIn: Math.floor((own.expiresAtMs - nowMs) / 1000),
    }
    const words = { method: "POST", path: `${path}/${one.id}/claim`, json } as const
    const given = yield* exchange(link, answer.nodeId, words, PeerTokenAnswer)
    if (!(yield* options.isToken(given.token, answer))) {
      const detail = "The token is not one of this node for us"
      return yield* new PeerRefused({
        nodeId: answer.nodeId,
        theirStatus: 200,
        theirCode: "bad_answer",
        reason: detail,
      })
    }
    yield* options.keep({
      other: { ...answer, address: one.address },
      token: Redacted.make(given.token),
      expiresAtMs: nowMs + given.expiresIn * 1000,
      grantGuardian: one.grantGuardian,
    })
  })

  /** One question; answers the seconds until the next. */
  const poll = Effect.fnUntraced(function*(one: Outgoing, interval: number) {
    // By the clock here: the other side's may be off by hours, and that side tells by itself when it gives up.
    if ((yield* Clock.currentTimeMillis) >= one.createdMs + openMs) {
      yield* end(one, "expired", "Nobody confirmed it in time")
      return interval
    }
    const words = { method: "GET", path: `${path}/${one.id}` } as const
    const status = yield* exchange(one.link, one.answer.nodeId, words, PairStatus)
    one.reason = ""
    if (status.state === "denied" || status.state === "expired") {
      const reason = status.state === "denied" ? "The other side has refused" : "Nobody confirmed it in time"
      yield* end(one, status.state, reason)
      return interval
    }
    // Claimed, as the other side has it, and open as we have it: its answer was lost.
    one.state = status.state === "claimed" ? "confirmed" : status.state
    if (one.state === "confirmed" && one.confirmed) {
      yield* claim(one)
      yield* Effect.logInfo(`Paired with the node ${one.answer.name}`)
      yield* end(one, "claimed", "")
    }
    return Math.min(longestInterval, Math.max(shortestInterval, status.interval))
  })

  const follow = (one: Outgoing) =>
    Effect.gen(function*() {
      let interval = Math.max(shortestInterval, one.answer.interval)
      while (isOpen(one)) {
        yield* Effect.sleep(interval * 1000)
        if (!isOpen(one)) return
        interval = yield* poll(one, interval).pipe(
          Effect.catch((error: PeerUnreachable | PeerRefused | DependencyUnavailable) => {
            if (error._tag === "PeerRefused" && error.theirStatus === 429) {
              return Effect.succeed(Math.min(longestInterval, interval + 5))
            }
            if (error._tag === "PeerRefused" && error.theirStatus < 500) {
              return Effect.as(end(one, "denied", error.message), interval)
            }
            // It may come back; the request ends by itself if it does not.
            one.reason = error.message
            return Effect.succeed(interval)
          }),
        )
      }
    })

  const find = Effect.fnUntraced(function*(id: string) {
    const one = known.find((each) => each.id === id)
    return one ?? (yield* new PairingNotFound())
  })

  return {
    ask: Effect.fnUntraced(
      function*(nodeId: NodeId, ask: PairAsk & { readonly address: string }, self: NodeIntroduction) {
        const open = known.filter(isOpen)
        if (open.length >= mostOpen) {
          const detail = `${mostOpen} pairings are open already; confirm or withdraw one of them`
          return yield* new PairingNotOpen({ state: "pending", detail })
        }
        // A second request to the same node takes the place of the first.
        for (const one of open) if (one.answer.nodeId === nodeId) yield* end(one, "denied", "It was asked again")
        const scope = yield* Scope.fork(layerScope)
        const { answer, link, transcript } = yield* converse(nodeId, ask, self, options.plain).pipe(
          Scope.provide(scope),
          Effect.catchTag("LinkFailed", (error) => Effect.fail(away(nodeId)(error))),
          Effect.onError(() => Scope.close(scope, Exit.void)),
        )
        const one: Outgoing = {
          id: answer.requestId,
          answer,
          address: ask.address,
          transcript,
          link,
          scope,
          createdMs: yield* Clock.currentTimeMillis,
          state: "pending",
          confirmed: ask.fingerprint !== undefined,
          grantGuardian: ask.grantGuardian ?? false,
          reason: "",
        }
        known = [one, ...known].slice(0, mostKept)
        yield* Effect.forkIn(follow(one), layerScope)
        return shown(one)
      },
    ),
    list: Effect.sync(() => known.map(shown)),
    confirm: Effect.fnUntraced(function*(id: string, input: PairConfirm) {
      const one = yield* find(id)
      if (!isOpen(one)) {
        return yield* new PairingNotOpen({
          state: one.state,
          detail: `The request is ${one.state} and cannot be confirmed`,
        })
      }
      if (input.comparisonCode !== undefined && input.comparisonCode !== comparisonCodeOf(one.transcript)) {
        return yield* new PairingMismatch({ detail: "The codes differ: somebody may stand between the two nodes" })
      }
      one.confirmed = true
      one.grantGuardian = input.grantGuardian ?? one.grantGuardian
      return shown(one)
    }),
    withdraw: Effect.fnUntraced(function*(id: string) {
      const one = yield* find(id)
      if (isOpen(one)) yield* end(one, "denied", "It was withdrawn")
    }),
  }
})
