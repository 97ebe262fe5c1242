/** What can go wrong with a camera, and what must be seen of it while it lasts. */
import { randomBytes } from "node:crypto"
import { createServer, type Socket } from "node:net"
import type { Cameras, Recorded } from "./cameras.ts"
import type { NodeProcess } from "./node-process.ts"

/** One recorded camera of a proof. */
export interface Patient {
  readonly node: NodeProcess
  readonly cameras: Cameras
  readonly index: number
  readonly recorded: Recorded
  /** A server that answers everything with garbage. */
  readonly garbage: Garbage
}

export interface Fault {
  readonly name: string
  readonly begin: (patient: Patient) => Promise<unknown>
  readonly end: (patient: Patient) => Promise<unknown>
  /** While it lasts; `null`: the recording goes on. */
  readonly seen: { readonly status: ReadonlyArray<string>; readonly reason: RegExp } | null
  /** Causes that the gap may be put down to, the first one among them at least; none: no picture is missing. */
  readonly causes: ReadonlyArray<string>
  /**
   * `loses`: packets are lost, with the number of a picture in some of them. `garbles`: pictures arrive damaged, and cannot be counted.
   */
  readonly harms?: "loses" | "garbles"
}

export interface Garbage {
  readonly url: string
  readonly stop: () => Promise<void>
}

/** Random bytes, as fast as they are taken. */
export const startGarbage = async (): Promise<Garbage> => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    const pour = () => {
      while (!socket.destroyed && socket.write(randomBytes(16_384))) continue
    }
    socket.on("error", () => socket.destroy())
    socket.on("close", () => sockets.delete(socket))
    socket.on("drain", pour)
    pour()
  })
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()))
  const address = server.address()
  return {
    url: `rtsp://127.0.0.1:${typeof address === "object" && address !== null ? address.port : 0}/cam`,
    stop: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy()
        server.close(() => resolve())
      }),
  }
}

const tell = (verb: string, body: Readonly<Record<string, unknown>> = {}) => ({ cameras, index }: Patient) =>
  cameras.command(index, verb, body)

const both = (...steps: ReadonlyArray<(patient: Patient) => Promise<unknown>>) => async (patient: Patient) => {
  for (const step of steps) await step(patient)
}

const password = (of: (patient: Patient) => string) => (patient: Patient) =>
  patient.node.callSoon("PUT", `/camera/api/v1/cameras/${patient.recorded.cameraId}`, {
    name: `camera ${patient.index}`,
    username: patient.cameras.username,
    password: of(patient),
  })

const address = (of: (patient: Patient) => string) => (patient: Patient) =>
  patient.node.callSoon("PUT", `/camera/api/v1/streams/${patient.recorded.streamId}`, { sourceUrl: of(patient) })

/** How long nothing is sent at a fault that lasts a moment of its own. */
const none = () => Promise.resolve()

export const faults = {
  frozen: {
    name: "frozen",
    begin: tell("freeze"),
    end: tell("thaw"),
    seen: { status: ["degraded"], reason: /no picture for \d+ s/ },
    causes: ["camera_frozen"],
  },
  cut: {
    name: "cut",
    begin: tell("cut"),
    end: tell("mend"),
    seen: { status: ["offline"], reason: /^unreachable: .*ECONNREFUSED/ },
    causes: ["camera_offline"],
  },
  dropped: {
    name: "connection dropped",
    begin: tell("disconnect"),
    end: none,
    seen: null,
    causes: ["camera_offline"],
  },
  wrongPassword: {
    name: "wrong password",
    begin: password(() => "not the password"),
    end: password(({ cameras }) => cameras.password),
    seen: { status: ["authFailed"], reason: /^unauthorized: / },
    causes: ["auth_failed", "starting"],
  },
  rejected: {
    name: "password changed at the camera",
    begin: both(tell("login", { reject: true }), tell("disconnect")),
    end: tell("login", { reject: false }),
    seen: { status: ["authFailed"], reason: /^unauthorized: / },
    causes: ["auth_failed", "camera_offline"],
  },
  stranger: {
    name: "another program at the address, which sends garbage",
    begin: address(({ garbage }) => garbage.url),
    end: address(({ cameras, index }) => cameras.urls[index]!),
    seen: { status: ["degraded"], reason: /^protocol: / },
    causes: ["stream_invalid", "starting"],
  },
  garbage: {
    name: "garbage between the packets",
    begin: tell("harm", { garbagePercent: 100 }),
    end: tell("harm"),
    seen: null,
    causes: ["packet_loss"],
    harms: "loses",
  },
  resolution: {
    name: "another resolution",
    begin: tell("show", { profile: "main", file: "wide-800x352-25.h264" }),
    end: tell("show", { profile: "main", file: "main-640x360-25.h264" }),
    seen: null,
    causes: [],
  },
  timestamps: {
    name: "RTP time jumps by an hour",
    begin: tell("jump", { timestampSeconds: 3_600 }),
    end: tell("jump", { timestampSeconds: -1_800 }),
    seen: null,
    causes: [],
  },
  clock: {
    name: "the camera's clock jumps by a day",
    begin: tell("jump", { clockMilliseconds: 86_400_000 }),
    end: tell("jump", { clockMilliseconds: -86_400_000 }),
    seen: null,
    causes: [],
  },
  sessions: {
    name: "no session free",
    begin: both(tell("sessions", { most: 0 }), tell("disconnect")),
    end: tell("sessions", { most: null }),
    seen: { status: ["offline"], reason: /^refused: .*453/ },
    causes: ["camera_offline"],
  },
  loss: {
    name: "one packet in fifty lost",
    begin: tell("harm", { dropPercent: 2 }),
    end: tell("harm"),
    seen: null,
    causes: ["packet_loss"],
    harms: "loses",
  },
  corrupt: {
    name: "damaged packets",
    begin: tell("harm", { corruptPercent: 50 }),
    end: tell("harm"),
    seen: null,
    causes: [],
    harms: "garbles",
  },
} as const satisfies Readonly<Record<string, Fault>>
