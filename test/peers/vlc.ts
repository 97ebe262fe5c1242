/**
 * Starts VLC as a camera: an RTSP server and packetiser of its own, by UDP alone. It loops a file that ffmpeg made.
 *
 * Invariants
 * 1. VLC refuses to run as root: then it runs as `nobody`, from a folder that account may read.
 * 2. `stop` ends the process it started, by its id, and removes its folder.
 */
import { execFile, spawn } from "node:child_process"
import { chmod, mkdtemp, rm } from "node:fs/promises"
import { connect, createServer } from "node:net"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { promisify } from "node:util"

const START_LIMIT_MS = 20_000
/** `nobody` and `nogroup` of Debian. */
const NOBODY = 65_534

export interface VlcCamera {
  readonly pid: number
  /** `rtsp://127.0.0.1:PORT/vlc`. */
  readonly url: string
  readonly stop: () => Promise<void>
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() =>
        typeof address === "object" && address !== null ? resolve(address.port) : reject(new Error("no port is free"))
      )
    })
  })

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, "127.0.0.1")
    socket.once("connect", () => {
      socket.destroy()
      resolve(true)
    })
    socket.once("error", () => resolve(false))
  })

/** `video`: H.264 elementary stream whose name ends in its rate (`-25.h264`); absolute. */
export const startVlcCamera = async (video: string): Promise<VlcCamera> => {
  const folder = await mkdtemp(path.join(tmpdir(), "nightjar-vlc-"))
  await chmod(folder, 0o755)
  const rate = /-(\d+)\.h264$/.exec(video)?.[1] ?? "25"
  const file = path.join(folder, "footage.mp4")
  const input = ["-loglevel", "error", "-framerate", rate, "-i", video]
  await promisify(execFile)("ffmpeg", [...input, "-c", "copy", file])
  const port = await freePort()
  const url = `rtsp://127.0.0.1:${port}/vlc`
  const account = process.getuid?.() === 0 ? { uid: NOBODY, gid: NOBODY } : {}
  const child = spawn("cvlc", ["--quiet", "--loop", "--sout", `#rtp{sdp=${url}}`, "--sout-keep", file], {
    stdio: "ignore",
    env: { PATH: process.env["PATH"], HOME: folder },
    ...account,
  })
  const gone = new Promise<void>((resolve) => {
    child.once("exit", () => resolve())
    child.once("error", () => resolve())
  })
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM")
    const killer = setTimeout(() => child.kill("SIGKILL"), 5_000)
    await gone
    clearTimeout(killer)
    await rm(folder, { recursive: true, force: true })
  }
  const begun = performance.now()
  while (!(await listens(port))) {
    if (child.exitCode !== null || performance.now() - begun > START_LIMIT_MS) {
      await stop()
      throw new Error("cvlc did not begin to serve")
    }
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  return { pid: child.pid!, url, stop }
}
