/**
 * One process a folder: a second one would take the growing files of the first for what a dead process left, and cut them.
 *
 * The lock is a listening socket named after the marker's device and inode: the system lets go of it when the process ends,
 * however it ends. On Linux the name is abstract (unix(7)); elsewhere it is a file in the temporary directory.
 *
 * Invariants
 * 1. Held until the scope closes; a process that dies holds nothing.
 * 2. Processes that do not share the machine's network namespace do not see each other.
 */
import { Effect, type Scope } from "effect"
import { rm, stat } from "node:fs/promises"
import { connect, createServer, type Server } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { StorageError } from "../storage.ts"
import { attempt, codeOf } from "./failure.ts"

const isAbstract = process.platform === "linux"

const listen = (path: string): Promise<Server> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once("error", reject)
    server.listen(path, () => {
      server.unref()
      resolve(server)
    })
  })

/** Somebody answers at a socket file; one that nobody listens at was left by a dead process. */
const isAnswered = (path: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(path)
    socket.once("connect", () => {
      socket.destroy()
      resolve(true)
    })
    socket.once("error", () => resolve(false))
  })

const lock = async (marker: string): Promise<Server | null> => {
  const { dev, ino } = await stat(marker)
  const name = `nightjar-folder-${dev}-${ino}`
  const path = isAbstract ? `\0${name}` : join(tmpdir(), name)
  try {
    return await listen(path)
  } catch (error) {
    if (codeOf(error) !== "EADDRINUSE") throw error
    if (isAbstract || (await isAnswered(path))) return null
    await rm(path, { force: true })
    return await listen(path)
  }
}

const unlock = (server: Server): Promise<void> => new Promise((resolve) => server.close(() => resolve()))

/** Fails with `EBUSY` while another storage has the folder. `marker`: path of the folder's marker file. */
export const holdFolder = (folder: string, marker: string): Effect.Effect<void, StorageError, Scope.Scope> =>
  Effect.acquireRelease(
    attempt(folder, "locking the folder", () => lock(marker)).pipe(Effect.filterOrFail((server) =>
      server !== null, () =>
      new StorageError({ cause: "disk_error", folder, code: "EBUSY", detail: "another process uses this folder" }))),
    (server) =>
      Effect.promise(() => unlock(server)),
  ).pipe(Effect.asVoid)
