/** The service `CameraBackups`: cameras as a document to keep. */
import type { BackupCamera, Sealing } from "#schema/camera-backup.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect, type Redacted, type Stream } from "effect"

export interface CameraExport {
  /** Null: without passwords. */
  readonly sealing: Sealing | null
  /** In the order of the cameras, read as they are taken. */
  readonly pages: Stream.Stream<ReadonlyArray<BackupCamera>, DependencyUnavailable>
}

export class CameraBackups extends Context.Service<CameraBackups, {
  /** `passphrase` percent-encoded; null: passwords are left out. */
  readonly export: (passphrase: Redacted.Redacted | null) => Effect.Effect<CameraExport, DependencyUnavailable>
}>()("nightjar/actors/CameraBackups") {}
