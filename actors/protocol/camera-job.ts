/** The service `CameraJobs`: many cameras at once. */
import type {
  BulkAdd,
  CameraImport,
  CameraJob,
  CameraJobId,
  CameraJobItem,
  CameraJobNotFound,
  ImportPlan,
  PassphraseWrong,
} from "#schema/camera-job.ts"
import type { PageOf, PageRequest } from "#schema/common.ts"
import type { DependencyUnavailable, InvalidCursor, InvalidInput } from "#schema/problem.ts"
import { Context, type Effect, type Redacted } from "effect"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>
type Read = InvalidInput | PassphraseWrong

export class CameraJobs extends Context.Service<CameraJobs, {
  readonly addBulk: (input: BulkAdd) => Answer<CameraJob>
  /** What an import would do. `passphrase` percent-encoded; null: passwords are left out. */
  readonly planImport: (document: CameraImport, passphrase: Redacted.Redacted | null) => Answer<ImportPlan, Read>
  readonly addImport: (document: CameraImport, passphrase: Redacted.Redacted | null) => Answer<CameraJob, Read>
  /** Whether every camera of the job is one of these; one that was not added is none. */
  readonly isOf: (id: CameraJobId, cameras: ReadonlySet<string>) => Answer<boolean>
  readonly get: (id: CameraJobId) => Answer<CameraJob, CameraJobNotFound>
  readonly items: (
    id: CameraJobId,
    page: PageRequest,
  ) => Answer<PageOf<CameraJobItem>, CameraJobNotFound | InvalidCursor>
}>()("nightjar/actors/CameraJobs") {}
