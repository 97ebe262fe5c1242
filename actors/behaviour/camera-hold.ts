/**
 * Who holds a camera that moves. No effects: time is handed in.
 *
 * Invariants
 * 1. One user holds it at a time. Whoever has a higher priority takes it from him; an equal one waits until it is free.
 * 2. It is free {@link PtzHold.idleMs} after its holder's last command, or after the end of the move that command began.
 * 3. Sessions of one user are one holder.
 */
import type { PtzHolder, PtzUser } from "#schema/camera-ptz.ts"

export class PtzHold {
  private held: PtzHolder | null = null
  private readonly idleMs: number

  constructor(idleMs: number) {
    this.idleMs = idleMs
  }

  /** Who holds it now. */
  holder(nowMs: number): PtzHolder | null {
    if (this.held !== null && this.held.until <= nowMs) this.held = null
    return this.held
  }

  /**
   * Null: `by` holds it now, and whoever did before does not. Otherwise whoever keeps `by` from it. `busyMs`: how long the camera
   * moves by this command; null: it goes on as it did.
   */
  claim(by: PtzUser, nowMs: number, busyMs: number | null): PtzHolder | null {
    const held = this.holder(nowMs)
    if (held !== null && held.userId !== by.userId && held.priority >= by.priority) return held
    const until = nowMs + (busyMs ?? 0) + this.idleMs
    this.held = { ...by, until: busyMs === null && held?.userId === by.userId ? Math.max(held.until, until) : until }
    return null
  }

  /** A command of this user came to nothing: unless he held it before, or lost it since, it is held as it was `before`. */
  undo(userId: string, before: PtzHolder | null): void {
    if (this.held?.userId === userId && before?.userId !== userId) this.held = before
  }

  /** Whoever held it in this session holds it no longer. */
  release(sessionId: string): void {
    if (this.held?.sessionId === sessionId) this.held = null
  }
}
