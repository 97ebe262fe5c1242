/** Errors of the system as errors of the door. */
import { Effect } from "effect"
import { StorageError } from "../storage.ts"

const fullCodes: ReadonlyArray<string> = ["ENOSPC", "EDQUOT", "EFBIG"]

/** Name of a system error (`ENOSPC`); `UNKNOWN` for anything else. */
export const codeOf = (error: unknown): string =>
  error instanceof Error && "code" in error && typeof error.code === "string" ? error.code : "UNKNOWN"

/** `doing`: what was tried, for a person. */
export const storageError = (folder: string, doing: string, error: unknown): StorageError => {
  const code = codeOf(error)
  const detail = error instanceof Error ? `${doing}: ${error.message}` : doing
  return new StorageError({ cause: fullCodes.includes(code) ? "disk_full" : "disk_error", folder, code, detail })
}

/** A file system call as an effect. */
export const attempt = <A>(folder: string, doing: string, run: () => Promise<A>): Effect.Effect<A, StorageError> =>
  Effect.tryPromise({ try: run, catch: (error) => storageError(folder, doing, error) })
