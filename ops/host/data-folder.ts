/**
 * The node's data folder: made when missing, and held by one process at a time.
 *
 * Invariants
 * 1. Two nodes never work on one data folder: the second one's start fails and says so. The hold ends with the process, however it
 *    ends: it is a listening socket, named after the folder's real path.
 * 2. A folder that this node makes is open to its own account alone; one that exists keeps its mode.
 */
import { Effect, Layer, Schema } from "effect"
import { createHash } from "node:crypto"
import { access, constants, mkdir, realpath, rm } from "node:fs/promises"
import { connect, createServer, type Server } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"

export class DataFolderUnusable extends Schema.TaggedError<DataFolderUnusable>()("DataFolderUnusable", {
  path: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `The data folder ${this.path} cannot be used: ${this.detail}`
  }
}

/** Name of the socket that stands for the hold. Linux has names without a file; elsewhere it is a file in the folder for such. */
const holdName = (path: string): string => {
  const name = `nightjar-${createHash("sha256").update(path).digest("hex").slice(0, 32)}`
  return process.platform === "linux" ? `\0${name}` : join(tmpdir(), `${name}.sock`)
}

const listen = (name: string): Promise<Server | null> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once("error", (cause: NodeJS.ErrnoException) => cause.code === "EADDRINUSE" ? resolve(null) : reject(cause))
    server.listen(name, () => {
      server.unref()
      resolve(server)
    })
  })

const answers = (name: string): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(name)
    socket.once("connect", () => {
      socket.destroy()
      resolve(true)
    })
    socket.once("error", () => resolve(false))
  })

const hold = async (name: string): Promise<Server | null> => {
  const server = await listen(name)
  if (server !== null || name.startsWith("\0") || await answers(name)) return server
  // Left by a process that was killed; the kernel forgets names without a file by itself.
  await rm(name, { force: true })
  return listen(name)
}

/** Makes the folder and holds it as long as the layer lives. */
export const layer = (path: string): Layer.Layer<never, DataFolderUnusable> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const attempt = <A>(run: () => Promise<A>) =>
      Effect.tryPromise({
        try: run,
        catch: (cause) =>
          new DataFolderUnusable({ path, detail: cause instanceof Error ? cause.message : String(cause) }),
      })
    const real = yield* attempt(async () => {
      await mkdir(path, { recursive: true, mode: 0o700 })
      await access(path, constants.R_OK | constants.W_OK | constants.X_OK)
      return realpath(path)
    })
    const server = yield* Effect.acquireRelease(
      attempt(() => hold(holdName(real))),
      (server) => Effect.sync(() => server?.close()),
    )
    return yield* server === null ?
      new DataFolderUnusable({ path, detail: "another node is running on it" }) :
      Effect.void
  }))
