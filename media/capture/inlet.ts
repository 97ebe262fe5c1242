/**
 * What stands between a connection and its recording: nothing, or a ring that fills until the stream is assigned and is then poured
 * into the recording, at the pace of the disk, before what comes live.
 *
 * Invariants
 * 1. The recording gets every unit once and in order: while anything is in the ring, what comes goes behind it.
 * 2. Once it has been poured out, or nothing is to be recorded, there is no ring any more.
 */
import type { EpochMs } from "#schema/common.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import type { GapCause } from "#schema/record.ts"
import type { Recorder } from "./recorder.ts"
import type { RingSink, StreamRing } from "./ring.ts"

const sinkOf = ({ intake, interrupt }: Recorder): RingSink => ({
  parameters: intake.parameters,
  unit: intake.unit,
  loss: intake.loss,
  interrupt,
})

export class Inlet {
  private readonly recorder: () => Recorder | null
  private held: StreamRing | null
  /** The stream is assigned: the ring is only poured out. */
  private over = false

  /** `recorder`: while it is to get units. */
  constructor(recorder: () => Recorder | null, ring: StreamRing | null) {
    this.recorder = recorder
    this.held = ring
  }

  ring(): StreamRing | null {
    return this.held
  }

  sinceMs(): EpochMs | null {
    return this.over ? null : this.held?.sinceMs() ?? null
  }

  /** A connection is needed for it, whoever watches. */
  isWanted(): boolean {
    return (this.held !== null && !this.over) || this.recorder() !== null
  }

  awaitingKey(): boolean {
    return this.held === null && (this.recorder()?.intake.awaitingKey() ?? false)
  }

  /** The stream was assigned, or assigned anew. */
  assigned(parameters: TrackParameters | null): void {
    this.over = true
    if (this.recorder() === null) return this.close()
    if (this.held !== null) this.pour()
    else if (parameters !== null) this.recorder()?.intake.parameters(parameters)
  }

  parameters(next: TrackParameters): void {
    if (this.held === null) this.recorder()?.intake.parameters(next)
    else this.held.parameters(next)
  }

  unit(unit: AccessUnit): void {
    if (this.held === null) return this.recorder()?.intake.unit(unit)
    this.held.unit(unit)
    this.pour()
  }

  loss(packets: number): void {
    if (this.held === null) this.recorder()?.intake.loss(packets)
    else this.held.loss(packets)
  }

  interrupt(cause: GapCause, detail: string): void {
    if (this.held === null) return this.recorder()?.interrupt(cause, detail)
    this.held.interrupt(cause, detail)
    this.pour()
  }

  /** Once a second. */
  tick(): void {
    if (this.over) this.pour()
    else this.held?.tick()
  }

  close(): void {
    this.held?.clear()
    this.held = null
  }

  private pour(): void {
    const recorder = this.recorder()
    if (!this.over || this.held === null || recorder === null) return
    if (this.held.pour(sinkOf(recorder), recorder.room)) this.close()
  }
}
