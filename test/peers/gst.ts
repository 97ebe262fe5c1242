/**
 * Starts independent cameras (`gst-cameras.py`, gst-rtsp-server) as a process.
 *
 * Invariant: `stop` ends the process it started, by its id, and answers only when it has gone; the process also ends when its
 * standard input does, so that a test that dies leaves nothing behind.
 */
import { type ChildProcess, spawn } from "node:child_process"
import * as path from "node:path"
import { createInterface } from "node:readline"

export interface GstOptions {
  /** Mounts `/NAME/0`, `/NAME/1`, … of each entry; files are absolute. */
  readonly streams: Readonly<Record<string, ReadonlyArray<string>>>
  readonly cameras?: number
  readonly port?: number
  readonly login?: { readonly scheme: "digest" | "basic"; readonly username: string; readonly password: string }
  /** `ffmpeg`: looped, timed and fed by ffmpeg as a transport stream; frames carry no marks then. */
  readonly fedBy?: "appsrc" | "ffmpeg"
  /** GStreamer's ONVIF server: mounts take PCMU by a backchannel. */
  readonly onvif?: boolean
}

export interface MountCount {
  /** Frames given to GStreamer; 0 where ffmpeg feeds. */
  readonly frames: number
  readonly first: number | null
  readonly last: number | null
  /** Packets that came by the backchannel. */
  readonly heard: number
}

export interface GstCameras {
  readonly pid: number
  readonly port: number
  /** `rtsp://127.0.0.1:PORT/NAME/K`, without credentials. */
  readonly url: (name: string, camera?: number) => string
  readonly report: () => Promise<Readonly<Record<string, MountCount>>>
  /** Answers the last report. */
  readonly stop: () => Promise<Readonly<Record<string, MountCount>>>
}

const stringOf = (line: string | undefined, errors: ReadonlyArray<Buffer>): string => {
  if (line !== undefined) return line
  throw new Error(`gst-cameras.py ended: ${Buffer.concat(errors).toString().slice(-2_000)}`)
}

const ended = (child: ChildProcess): Promise<void> =>
  child.exitCode !== null || child.signalCode !== null ?
    Promise.resolve() :
    new Promise((resolve) => child.once("exit", () => resolve()))

/** Rejects with what the program said where it cannot start. */
export const startGstCameras = async (options: GstOptions): Promise<GstCameras> => {
  const login = options.login
  const child = spawn("/usr/bin/python3", [
    path.join(import.meta.dirname, "gst-cameras.py"),
    "--port",
    String(options.port ?? 0),
    "--cameras",
    String(options.cameras ?? 1),
    "--fed-by",
    options.fedBy ?? "appsrc",
    ...Object.entries(options.streams).flatMap(([name, files]) => ["--stream", `${name}=${files.join(",")}`]),
    ...(options.onvif === true ? ["--onvif"] : []),
    ...(login === undefined ? [] : [`--${login.scheme}`, `${login.username}:${login.password}`]),
  ], { stdio: ["pipe", "pipe", "pipe"] })
  const errors: Array<Buffer> = []
  child.stderr.on("data", (chunk: Buffer) => {
    errors.push(chunk)
    if (errors.length > 100) errors.shift()
  })
  // A write to a process that has gone is answered by the end of its output.
  child.stdin.on("error", () => {})
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const read = async (): Promise<unknown> => {
    const line = await lines.next()
    return JSON.parse(stringOf(line.done === true ? undefined : line.value, errors))
  }
  const counts = async () => ((await read()) as { mounts: Record<string, MountCount> }).mounts
  const { port } = (await read()) as { port: number }
  return {
    pid: child.pid!,
    port,
    url: (name, camera = 0) => `rtsp://127.0.0.1:${port}/${name}/${camera}`,
    report: async () => {
      child.stdin.write("report\n")
      return await counts()
    },
    stop: async () => {
      child.kill("SIGTERM")
      const last = await counts()
      await ended(child)
      return last
    },
  }
}
