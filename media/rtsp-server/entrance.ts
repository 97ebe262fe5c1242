/**
 * Who is let in on one connection: by a token, or by the account of the door.
 *
 * Invariants
 * 1. Credentials that are refused are answered late, and {@link maxRefusals} times on one connection; all refusals are told to the gate.
 * 2. While an address is locked ({@link Lockout}), the account is not looked at from there; tokens, which nobody guesses, are.
 */
import { Effect } from "effect"
import { randomBytes } from "node:crypto"
import type { RtspGate, RtspGrant } from "../rtsp-server.ts"
import { header, type RequestHead } from "../rtsp/message.ts"
import { type Refusal, refuse } from "./answer.ts"
import { challenges, type RtspAccount, showsAccount, tokenOf } from "./credentials.ts"
import type { Lockout } from "./lockout.ts"
import { keyOf, type Target } from "./transport.ts"

const refusalMs = 500
const maxRefusals = 5

export interface EntranceOptions {
  readonly account: RtspAccount | null
  readonly gate: RtspGate["Service"]
  readonly lockout: Lockout
  /** Of the player. */
  readonly address: string
  readonly userAgent: () => string
  readonly nowMs: () => number
  readonly close: () => void
}

interface Entered {
  readonly key: string
  readonly grant: RtspGrant
  readonly byAccount: boolean
}

export class Entrance {
  private readonly options: EntranceOptions
  private readonly nonce = randomBytes(16).toString("hex")
  private refusals = 0
  private entered: Entered | null = null

  constructor(options: EntranceOptions) {
    this.options = options
  }

  get grant(): RtspGrant | null {
    return this.entered?.grant ?? null
  }

  /** By which the caller was let in; null: by a token. */
  get account(): RtspAccount | null {
    return this.entered?.byAccount === true ? this.options.account : null
  }

  /** What may be taken back; null for the account of the door. */
  get revocable(): RtspGrant | null {
    return this.entered === null || this.entered.byAccount ? null : this.entered.grant
  }

  /** Who asks may have what the address names, or it is refused. True: just now for the first time. */
  readonly enter = Effect.fnUntraced(
    function*(this: Entrance, head: RequestHead, target: Target): Effect.fn.Return<boolean, Refusal> {
      const key = keyOf(target)
      if (this.entered?.key === key) return false
      const found = yield* this.judge(head, target)
      if (found === null) return yield* this.refused(head, target)
      this.entered = { key, ...found }
      return true
    },
  )

  private judge(head: RequestHead, target: Target): Effect.Effect<Omit<Entered, "key"> | null, Refusal> {
    const { account, address, gate, lockout, nowMs } = this.options
    const authorization = header(head, "authorization")
    const token = tokenOf(head.url, authorization)
    const asked = { method: head.method, url: head.url, authorization }
    if (lockout.isOpen(address, nowMs()) && showsAccount(account, this.nonce, asked)) {
      lockout.succeeded(address)
      return this.byAccount(target)
    }
    if (token === null) return Effect.succeed(null)
    const grant = target.kind === "live" ?
      gate.enter(target.streamId, token) :
      gate.replay(target.recordingToken, token)
    return grant.pipe(
      Effect.map((one) => ({ grant: one, byAccount: false })),
      Effect.catchTag("RtspRefused", () => Effect.succeed(null)),
      Effect.catchTag("RtspGateClosed", () => refuse(503)),
    )
  }

  private byAccount(target: Target): Effect.Effect<Omit<Entered, "key">, Refusal> {
    const holder = this.options.account?.username ?? ""
    if (target.kind === "live") return Effect.succeed({ grant: { holder, recordingId: null }, byAccount: true })
    return this.options.gate.recordingOf(target.recordingToken).pipe(
      Effect.catchTag("RtspGateClosed", () => refuse(503)),
      Effect.flatMap((recordingId) =>
        recordingId === null ? refuse(404) : Effect.succeed({ grant: { holder, recordingId }, byAccount: true })
      ),
    )
  }

  private readonly refused = Effect.fnUntraced(
    function*(this: Entrance, head: RequestHead, target: Target): Effect.fn.Return<never, Refusal> {
      const { account, address, close, gate, lockout, nowMs, userAgent } = this.options
      const authorization = header(head, "authorization")
      if (authorization !== null || tokenOf(head.url, null) !== null) {
        // A token in the address is no attempt at the account.
        if (account !== null && authorization !== null) lockout.failed(address, nowMs())
        yield* gate.refused({
          address,
          userAgent: userAgent(),
          what: keyOf(target),
          locked: !lockout.isOpen(address, nowMs()),
        })
        yield* Effect.sleep(refusalMs)
        if (++this.refusals >= maxRefusals) close()
      }
      return yield* refuse(
        401,
        challenges(account, this.nonce).map((challenge) => ["WWW-Authenticate", challenge] as const),
      )
    },
  )
}
