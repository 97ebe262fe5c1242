/**
 * Tells a disk from the empty directory it is mounted on: each folder carries a marker file with an id, and a registry outside
 * of the folders remembers which id belongs to which folder name.
 *
 * Invariants
 * 1. A folder whose name is in the registry is used only while its marker carries the registered id.
 * 2. A folder that is not in the registry is adopted with the marker it has, or gets a new one: losing the registry loses
 *    nothing.
 * 3. Both files are replaced by renaming, after a sync.
 */
import { uuid7 } from "#schema/uuid.ts"
import { Effect, Schema, Scope, Semaphore } from "effect"
import { mkdir, open, readFile, rename } from "node:fs/promises"
import { dirname, join } from "node:path"
import { StorageError } from "../storage.ts"
import { holdFolder } from "./exclusive.ts"
import { attempt, codeOf, storageError } from "./failure.ts"
import type { FolderOptions } from "./options.ts"

export const markerName = "nightjar-folder.json"

const Marker = Schema.Struct({ version: Schema.Literal(1), id: Schema.String })
const RegistryFile = Schema.Struct({ version: Schema.Literal(1), folders: Schema.Record(Schema.String, Schema.String) })
const decodeMarker = Schema.decodeUnknownEffect(Schema.fromJsonString(Marker))
const decodeRegistry = Schema.decodeUnknownEffect(Schema.fromJsonString(RegistryFile))

const replaceFile = async (path: string, text: string): Promise<void> => {
  await mkdir(dirname(path), { recursive: true })
  const file = await open(`${path}.tmp`, "w")
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(`${path}.tmp`, path)
}

/** The text of a file; null where there is none. */
const textOf = async (path: string): Promise<string | null> => {
  try {
    return await readFile(path, "utf8")
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null
    throw error
  }
}

const damaged = (folder: string, what: string) =>
  new StorageError({ cause: "disk_error", folder, code: "EBADMSG", detail: `${what} cannot be read` })

/** A folder that is not the one it was. */
const absent = (folder: FolderOptions, detail: string) =>
  new StorageError({ cause: "disk_error", folder: folder.name, code: "ENOENT", detail })

const readMarker = Effect.fnUntraced(function*(folder: FolderOptions) {
  const text = yield* attempt(folder.name, "reading the marker", () => textOf(join(folder.path, markerName)))
  if (text === null) return null
  const marker = yield* Effect.mapError(decodeMarker(text), () => damaged(folder.name, markerName))
  return marker.id
})

const readRegistry = Effect.fnUntraced(function*(folder: string, path: string) {
  const text = yield* attempt(folder, "reading the folder registry", () => textOf(path))
  if (text === null) return {}
  const registry = yield* Effect.mapError(decodeRegistry(text), () => damaged(folder, path))
  return registry.folders
})

/** Where the folders' ids are remembered; `lock` admits one writer. `scope`: as long as the folders are held. */
export interface Registry {
  readonly path: string
  readonly lock: Semaphore.Semaphore
  readonly scope: Scope.Scope
}

const register = (folder: FolderOptions, registry: Registry, id: string) =>
  Effect.gen(function*() {
    const known = yield* readRegistry(folder.name, registry.path)
    const text = `${JSON.stringify({ version: 1, folders: { ...known, [folder.name]: id } }, null, 2)}\n`
    yield* attempt(folder.name, "writing the folder registry", () => replaceFile(registry.path, text))
  }).pipe(Semaphore.withPermit(registry.lock))

const hold = (folder: FolderOptions, registry: Registry) =>
  Scope.provide(holdFolder(folder.name, join(folder.path, markerName)), registry.scope)

/** Makes sure that the folder is the one registered under its name, and holds it. Returns the marker's id. */
export const claimFolder = Effect.fnUntraced(function*(folder: FolderOptions, registry: Registry) {
  const known = yield* readRegistry(folder.name, registry.path)
  const registered = known[folder.name]
  const found = yield* readMarker(folder)
  if (registered !== undefined) {
    if (found === registered) {
      yield* hold(folder, registry)
      return registered
    }
    return yield* absent(
      folder,
      found === null ?
        `${folder.path} has no ${markerName}: is its disk mounted? A new disk needs a new folder name` :
        `${folder.path} holds another folder's disk`,
    )
  }
  const id = found ?? (yield* uuid7)
  if (found === null) {
    const text = `${JSON.stringify({ version: 1, id })}\n`
    yield* attempt(folder.name, "writing the marker", () => replaceFile(join(folder.path, markerName), text))
  }
  yield* hold(folder, registry)
  yield* register(folder, registry, id)
  return id
})

/** Fails unless the marker is there, carries `id`, and could be written. */
export const checkMarker = (folder: FolderOptions, id: string): Effect.Effect<void, StorageError> =>
  Effect.gen(function*() {
    const found = yield* readMarker(folder)
    if (found !== id) {
      return yield* absent(
        folder,
        `${folder.path} has ${found === null ? "no" : "another"} ${markerName}: is its disk mounted?`,
      )
    }
    return yield* Effect.tryPromise({
      try: async () => (await open(join(folder.path, markerName), "r+")).close(),
      catch: (error) => storageError(folder.name, "opening the marker for writing", error),
    })
  })
