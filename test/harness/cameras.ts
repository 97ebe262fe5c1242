/**
 * Simulated cameras as a process of their own, so that the work of a check does not make them late.
 *
 * Invariant: they end by `stop`, and also when the process that started them does.
 */
import { type ChildProcess, spawn } from "node:child_process"
import * as path from "node:path"
import { createInterface } from "node:readline"
import type { CameraReport } from "../camera-simulator/camera.ts"
import type { NodeProcess } from "./node-process.ts"

export interface Cameras {
  readonly pid: number
  /** Of each camera's main stream. */
  readonly urls: ReadonlyArray<string>
  readonly username: string
  readonly password: string
  readonly reports: () => Promise<ReadonlyArray<CameraReport>>
  /** A command of the control port (`test/camera-simulator/control.ts`) to camera K. */
  readonly command: (camera: number, verb: string, body?: Readonly<Record<string, unknown>>) => Promise<CameraReport>
  readonly stop: () => Promise<void>
}

interface Told {
  readonly control: string
  readonly cameras: ReadonlyArray<{
    readonly username?: string
    readonly password?: string
    readonly streams: ReadonlyArray<{ readonly url: string }>
  }>
}

export const ended = (child: ChildProcess): Promise<void> =>
  child.exitCode !== null || child.signalCode !== null ?
    Promise.resolve() :
    new Promise((resolve) => child.once("exit", () => resolve()))

/** `more`: further arguments of `test/camera-simulator/main.ts`. */
export const startCameras = async (count: number, more: ReadonlyArray<string> = []): Promise<Cameras> => {
  const program = path.join(import.meta.dirname, "..", "camera-simulator", "main.ts")
  const child = spawn(process.execPath, [program, "--with-parent", "--cameras", String(count), ...more], {
    stdio: ["pipe", "pipe", "inherit"],
  })
  const line = await createInterface({ input: child.stdout })[Symbol.asyncIterator]().next()
  if (line.done === true) throw new Error("the simulated cameras did not start")
  const told = JSON.parse(line.value) as Told
  const ask = async (where: string, init?: RequestInit): Promise<unknown> => {
    const response = await fetch(`${told.control}${where}`, init)
    if (!response.ok) throw new Error(`${where}: ${await response.text()}`)
    return await response.json()
  }
  return {
    pid: child.pid!,
    urls: told.cameras.map((camera) => camera.streams[0]!.url),
    username: told.cameras[0]?.username ?? "",
    password: told.cameras[0]?.password ?? "",
    reports: async () => ((await ask("/")) as { readonly cameras: ReadonlyArray<CameraReport> }).cameras,
    command: async (camera, verb, body = {}) =>
      (await ask(`/cameras/${camera}/${verb}`, { method: "POST", body: JSON.stringify(body) })) as CameraReport,
    stop: async () => {
      child.kill("SIGTERM")
      await ended(child)
    },
  }
}

/** One recorded stream as the API made it. */
export interface Recorded {
  readonly cameraId: string
  readonly streamId: string
  readonly recordingId: string
  readonly recordingToken: string
  readonly createdMs: number
}

/** Adds a camera and records its main stream continuously. */
export const record = async (node: Pick<NodeProcess, "callSoon">, camera: {
  readonly name: string
  readonly sourceUrl: string
  readonly subUrl?: string
  readonly username?: string
  readonly password?: string
  readonly transport?: "tcp" | "udp"
}): Promise<Recorded> => {
  const { name, password, sourceUrl, subUrl, transport, username } = camera
  const login = username === undefined || username === "" ? {} : { username, password }
  const added = (await node.callSoon("POST", "/camera/api/v1/cameras", {
    name,
    driver: "rtsp",
    streams: [
      { role: "main", sourceUrl, ...(transport === undefined ? {} : { transport }) },
      ...(subUrl === undefined ? [] : [{ role: "sub", sourceUrl: subUrl }]),
    ],
    ...login,
  })) as {
    readonly id: string
    readonly channels: ReadonlyArray<{ readonly id: string; readonly streams: ReadonlyArray<{ readonly id: string }> }>
  }
  const channel = added.channels[0]!
  const made = (await node.callSoon("POST", "/record/api/v1/recordings", {
    channelId: channel.id,
    role: "main",
    mode: "continuous",
    enabled: true,
    retentionDays: 1,
  })) as { readonly id: string; readonly recordingToken: string; readonly createdAt: string }
  return {
    cameraId: added.id,
    streamId: channel.streams[0]!.id,
    recordingId: made.id,
    recordingToken: made.recordingToken,
    createdMs: Date.parse(made.createdAt),
  }
}
