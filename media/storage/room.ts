/** What the parts of this room share. */
import type { Clock, Semaphore } from "effect"
import type { Catalogue } from "./catalogue.ts"
import type { Folder } from "./folder.ts"
import type { Registry } from "./marker.ts"
import type { StorageOptions } from "./options.ts"
import type { Writer } from "./writer.ts"

export interface Room {
  readonly options: StorageOptions
  readonly folders: ReadonlyArray<Folder>
  readonly catalogue: Catalogue
  /** Open files by id. */
  readonly writers: Map<string, Writer>
  readonly clock: Clock.Clock
  readonly registry: Registry
  /** One scan at a time. */
  readonly scanning: Semaphore.Semaphore
}
