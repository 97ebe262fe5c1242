/**
 * The asked side of a pairing: requests as they come in, wait for the administrator, and are claimed.
 *
 * Invariants
 * 1. A request gets a token once: its administrator confirmed it, the nonce was revealed as it had been committed to, and the claim is
 *    signed by the key that asked. The same claim again, because the answer was lost, gets one anew.
 * 2. Bounds: {@link mostOpen} open requests, {@link mostOfOne} of them from one address, {@link mostKept} altogether; each ends after
 *    {@link openMs}.
 * 3. Nothing is sent to the asking node's address before the pairing is done.
 */
import { thumbprintOf } from "#cluster/dpop.ts"
import { commitmentTo, comparisonCodeOf, hasSigned, type PairingTranscript, signTranscript } from "#cluster/pairing.ts"
import {
  type NodeIntroduction,
  type PairAnswer,
  type PairClaim,
  type PairConfirm,
  PairingMismatch,
  PairingNotFound,
  PairingNotOpen,
  PairingSlowDown,
  type PairOffer,
  type PairRequest,
  type PairState,
  type PairStatus,
} from "#schema/auth-federation.ts"
import type { EpochMs, NodeId } from "#schema/common.ts"
import { Fingerprint } from "#schema/federation.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect } from "effect"
import { type KeyObject, randomBytes } from "node:crypto"

export const openMs = 10 * 60_000
const keptMs = 60 * 60_000
const mostOpen = 8
const mostOfOne = 3
const mostKept = 32
/** Seconds between two questions for the state. */
const interval = 2

interface Incoming {
  readonly id: string
  readonly offer: PairOffer
  readonly self: NodeIntroduction
  readonly nonce: string
  readonly from: string
  readonly createdMs: EpochMs
  state: PairState
  askingNonce: string | null
  grantGuardian: boolean
  askedAtMs: EpochMs
}

/** What a good claim is worth. */
export interface Claimed {
  readonly offer: PairOffer
  readonly grantGuardian: boolean
  /** For the first time. */
  readonly first: boolean
}

export interface Asked {
  readonly request: (
    offer: PairOffer,
    self: NodeIntroduction,
    from: string,
  ) => Effect.Effect<PairAnswer, PairingMismatch | PairingSlowDown>
  readonly status: (id: string) => Effect.Effect<PairStatus, PairingNotFound | PairingSlowDown>
  readonly reveal: (
    id: string,
    nonce: string,
    key: KeyObject,
  ) => Effect.Effect<{ readonly signature: string }, PairingNotFound | PairingNotOpen | PairingMismatch>
  readonly confirm: (
    id: string,
    input: PairConfirm,
  ) => Effect.Effect<PairRequest, PairingNotFound | PairingNotOpen | PairingMismatch>
  readonly deny: (id: string) => Effect.Effect<PairRequest, PairingNotFound | PairingNotOpen>
  /** Whether the claim is good; `settle` says that it was kept. */
  readonly claim: (
    id: string,
    claim: Pick<PairClaim, "signature">,
  ) => Effect.Effect<Claimed, PairingNotFound | PairingNotOpen | PairingMismatch>
  readonly settle: (id: string) => void
  readonly list: Effect.Effect<ReadonlyArray<PairRequest>>
}

const transcriptOf = (one: Incoming): PairingTranscript | null =>
  one.askingNonce === null ?
    null :
    { asking: one.offer, asked: one.self, askingNonce: one.askingNonce, askedNonce: one.nonce }

const shown = (one: Incoming): PairRequest => {
  const transcript = transcriptOf(one)
  return {
    id: one.id,
    nodeId: one.offer.nodeId,
    name: one.offer.name,
    address: one.offer.address,
    from: one.from,
    fingerprint: Fingerprint.make(thumbprintOf(one.offer.signingKey)),
    comparisonCode: transcript === null ? null : comparisonCodeOf(transcript),
    state: one.state,
    createdAt: one.createdMs,
    expiresAt: one.createdMs + openMs,
  }
}

const notOpen = (one: Incoming, wanted: string) =>
  new PairingNotOpen({ state: one.state, detail: `The request is ${one.state} and cannot be ${wanted}` })

const isOpen = ({ state }: Incoming) => state === "pending" || state === "confirmed"

/** Requests to the node `self`. */
export const makeAsked = (self: NodeId): Asked => {
  let known: ReadonlyArray<Incoming> = []

  /** What is older than it may be ends; what is long over is forgotten. */
  const tidy = Effect.map(Clock.currentTimeMillis, (nowMs) => {
    for (const one of known) if (isOpen(one) && nowMs >= one.createdMs + openMs) one.state = "expired"
    known = known.filter((one) => isOpen(one) || nowMs < one.createdMs + keptMs)
    return nowMs
  })
  const find = Effect.fnUntraced(function*(id: string) {
    const nowMs = yield* tidy
    const one = known.find((each) => each.id === id)
    return one === undefined ? yield* new PairingNotFound() : { one, nowMs }
  })
  const answerOf = (one: Incoming): PairAnswer => ({
    ...one.self,
    requestId: one.id,
    nonce: one.nonce,
    state: one.state,
    expiresAt: one.createdMs + openMs,
    interval,
  })

  return {
    request: Effect.fnUntraced(function*(offer, introduction, from) {
      if (offer.target !== self) {
        return yield* new PairingMismatch({ detail: "This is another node than the one asked for" })
      }
      if (offer.nodeId === self) return yield* new PairingMismatch({ detail: "A node cannot pair with itself" })
      const nowMs = yield* tidy
      const open = known.filter(isOpen)
      if (open.length >= mostOpen || open.filter((one) => one.from === from).length >= mostOfOne) {
        const freeMs = Math.min(...open.map(({ createdMs }) => createdMs)) + openMs - nowMs
        return yield* new PairingSlowDown({ retryAfterSeconds: Math.max(1, Math.ceil(freeMs / 1000)) })
      }
      const one: Incoming = {
        id: yield* uuid7,
        offer,
        self: introduction,
        // What people compare depends on it: not from a seed.
        nonce: randomBytes(32).toString("base64url"),
        from,
        createdMs: nowMs,
        state: "pending",
        askingNonce: null,
        grantGuardian: false,
        askedAtMs: 0,
      }
      const over = known.filter((each) => !isOpen(each)).slice(0, mostKept - mostOpen)
      known = [one, ...open, ...over]
      return answerOf(one)
    }),
    status: Effect.fnUntraced(function*(id) {
      const { nowMs, one } = yield* find(id)
      const tooSoon = nowMs - one.askedAtMs < interval * 800
      one.askedAtMs = nowMs
      if (tooSoon) return yield* new PairingSlowDown({ retryAfterSeconds: interval })
      return { requestId: one.id, state: one.state, expiresAt: one.createdMs + openMs, interval }
    }),
    reveal: Effect.fnUntraced(function*(id, nonce, key) {
      const { one } = yield* find(id)
      if (!isOpen(one)) return yield* notOpen(one, "revealed")
      // A second guess would be one too many.
      if (one.askingNonce !== null && one.askingNonce !== nonce) {
        return yield* new PairingMismatch({ detail: "Another nonce was revealed before" })
      }
      if (commitmentTo(one.offer, nonce) !== one.offer.commitment) {
        one.state = "denied"
        return yield* new PairingMismatch({ detail: "The nonce is not the one that was committed to" })
      }
      one.askingNonce = nonce
      return { signature: signTranscript(key, "answer", transcriptOf(one)!) }
    }),
    confirm: Effect.fnUntraced(function*(id, input) {
      const { one } = yield* find(id)
      const transcript = transcriptOf(one)
      if (one.state !== "pending" && one.state !== "confirmed") return yield* notOpen(one, "confirmed")
      if (transcript === null) {
        return yield* new PairingNotOpen({ state: one.state, detail: "The other side has not answered yet" })
      }
      if (input.comparisonCode !== undefined && input.comparisonCode !== comparisonCodeOf(transcript)) {
        return yield* new PairingMismatch({ detail: "The codes differ: somebody may stand between the two nodes" })
      }
      one.state = "confirmed"
      one.grantGuardian = input.grantGuardian ?? one.grantGuardian
      return shown(one)
    }),
    deny: Effect.fnUntraced(function*(id) {
      const { one } = yield* find(id)
      if (!isOpen(one)) return yield* notOpen(one, "denied")
      one.state = "denied"
      return shown(one)
    }),
    claim: Effect.fnUntraced(function*(id, { signature }) {
      const { one } = yield* find(id)
      const transcript = transcriptOf(one)
      if (transcript === null || (one.state !== "confirmed" && one.state !== "claimed")) {
        return yield* notOpen(one, "claimed")
      }
      if (!hasSigned("claim", transcript, signature)) {
        return yield* new PairingMismatch({ detail: "The claim is not signed by the node that asked" })
      }
      return { offer: one.offer, grantGuardian: one.grantGuardian, first: one.state === "confirmed" }
    }),
    settle: (id) => {
      const one = known.find((each) => each.id === id)
      if (one !== undefined) one.state = "claimed"
    },
    list: Effect.map(tidy, () => known.map(shown)),
  }
}
