/**
 * What one connection is shown: the programme of the address that was asked for last.
 *
 * Invariants
 * 1. A programme is held until another is asked for or the connection ends; a live one that gave up is opened anew.
 */
import { Effect, Exit, Scope } from "effect"
import type { RtspFootage, RtspGrant } from "../rtsp-server.ts"
import { type Refusal, refuse } from "./answer.ts"
import type { Programme } from "./lanes.ts"
import { openLive, openRecording, type Shelf } from "./programme.ts"
import { keyOf, type Target } from "./transport.ts"

interface Held {
  readonly programme: Programme & { readonly isStale?: () => boolean }
  readonly scope: Scope.Closeable
}

export class Stage {
  private readonly shelf: Shelf
  private readonly scope: Scope.Scope
  private held: Held | null = null
  /** What other nodes have of an address, by its key. */
  others: { readonly key: string; readonly footage: RtspFootage } | null = null

  constructor(shelf: Shelf, scope: Scope.Scope) {
    this.shelf = shelf
    this.scope = scope
  }

  /** It needs not be looked for again. */
  holds(target: Target): boolean {
    return this.held?.programme.key === keyOf(target) && this.held.programme.isStale?.() !== true
  }

  readonly show = (target: Target, grant: RtspGrant | null): Effect.Effect<Programme, Refusal> =>
    Effect.gen({ self: this }, function*() {
      if (this.held !== null && this.holds(target)) return this.held.programme
      if (this.held !== null) yield* Scope.close(this.held.scope, Exit.void)
      this.held = null
      const scope = yield* Scope.fork(this.scope)
      const programme = yield* this.open(target, grant).pipe(
        Scope.provide(scope),
        Effect.onExit((exit) => Exit.isSuccess(exit) ? Effect.void : Scope.close(scope, Exit.void)),
      )
      this.held = { programme, scope }
      return programme
    })

  private open(target: Target, grant: RtspGrant | null): Effect.Effect<Held["programme"], Refusal, Scope.Scope> {
    if (target.kind === "live") return openLive(this.shelf, target)
    const recordingId = grant?.recordingId ?? null
    const others = this.others?.key === keyOf(target) ? this.others.footage : null
    return recordingId === null ? refuse(404) : openRecording(this.shelf, target, recordingId, others)
  }
}
