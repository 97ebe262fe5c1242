/**
 * A simulated camera: a listener of its own, its mounts, its sessions and its faults.
 *
 * Invariants
 * 1. A cut camera refuses connections (its port is closed) and comes back on the same port.
 * 2. Ended sessions are remembered, the newest `ENDED_KEPT`, so that what was sent in them can be counted afterwards.
 */
import { randomBytes } from "node:crypto"
import * as dgram from "node:dgram"
import * as net from "node:net"
import type { Credentials } from "./auth.ts"
import { serve } from "./connection.ts"
import { wallNow } from "./feed.ts"
import { Loudspeaker } from "./loudspeaker.ts"
import { Mount } from "./mount.ts"
import { type CameraOptions, type Harm, noHarm } from "./options.ts"
import { Session, type Surroundings, type TrackCount } from "./session.ts"

const ENDED_KEPT = 200

export interface SessionReport {
  readonly id: string
  readonly mount: string
  readonly playing: boolean
  readonly openedMs: number
  readonly endedMs: number | null
  readonly endCause: string
  readonly droppedPackets: number
  readonly harmedPackets: number
  readonly harmedFrames: ReadonlyArray<number>
  readonly video: TrackCount | null
  readonly audio: TrackCount | null
}

export interface MountReport {
  readonly path: string
  readonly profile: string
  readonly url: string
  readonly codec: string
  readonly width: number
  readonly height: number
  readonly rate: number
  readonly audio: string | null
  readonly viewers: number
  readonly video: TrackCount
  readonly audioSent: TrackCount | null
}

export interface CameraReport {
  readonly name: string
  readonly port: number
  readonly cut: boolean
  readonly frozen: boolean
  readonly harm: Harm
  readonly requests: Readonly<Record<string, number>>
  readonly connections: number
  readonly mounts: ReadonlyArray<MountReport>
  readonly sessions: ReadonlyArray<SessionReport>
  /** Of its loudspeaker: packets, and how many of their samples were not silent. */
  readonly heard: { readonly packets: number; readonly loudSamples: number }
}

export class Camera {
  readonly options: CameraOptions
  readonly index: number
  readonly host: string
  readonly mounts: ReadonlyArray<Mount>
  readonly counters = { received: 0, connections: 0, requests: {} as Record<string, number> }
  readonly loudspeaker = new Loudspeaker()
  slowMs = 0
  #port: number
  #server: net.Server | null = null
  #udp: { rtp: dgram.Socket; rtcp: dgram.Socket; ports: { rtp: number; rtcp: number } } | null = null
  #harm: Harm = noHarm
  #clockOffsetMs = 0
  #maxSessions = Number.POSITIVE_INFINITY
  #rejectsLogin = false
  #frozen = false
  readonly #sockets = new Set<net.Socket>()
  readonly #sessions = new Map<string, Session>()
  readonly #ended: Array<Session> = []
  readonly #timers = new Map<string, NodeJS.Timeout>()
  readonly #random: () => number
  #idle: NodeJS.Timeout | null = null

  constructor(options: CameraOptions, index: number, host: string, port: number, random: () => number) {
    this.options = options
    this.index = index
    this.host = host
    this.#port = port
    this.#random = random
    // Cameras of one process do not send in step.
    const startMs = wallNow() - ((index * 7.3) % 40)
    this.mounts = options.profiles.map((profile) =>
      new Mount(
        profile,
        profile.name === "main" ? `/cam/${index}` : `/cam/${index}/${profile.name}`,
        options,
        startMs,
        random,
      )
    )
  }

  async open(): Promise<void> {
    await this.#listen()
    this.#udp = await udpPair(this.host)
    this.#idle = setInterval(() => this.#endIdle(), 500)
    this.#idle.unref()
  }

  async close(): Promise<void> {
    for (const timer of this.#timers.values()) clearTimeout(timer)
    if (this.#idle !== null) clearInterval(this.#idle)
    await this.#shut("closed")
    this.#udp?.rtp.close()
    this.#udp?.rtcp.close()
    this.#udp = null
  }

  /** Media stop, requests are still answered. */
  freeze(seconds: number | null = null): void {
    this.#setFrozen(true)
    this.#later("freeze", seconds, () => this.#setFrozen(false))
  }

  thaw(): void {
    this.#cancel("freeze")
    this.#setFrozen(false)
  }

  /** Closes every connection and refuses new ones. */
  async cut(seconds: number | null = null): Promise<void> {
    await this.#shut("cut")
    this.#later("cut", seconds, () => void this.mend())
  }

  /** Takes connections again after a cut. */
  async mend(): Promise<void> {
    this.#cancel("cut")
    if (this.#server === null) await this.#listen()
  }

  /** Closes every connection, but takes new ones at once. */
  disconnect(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  harm(harm: Partial<Harm>, seconds: number | null = null): void {
    this.#harm = { ...noHarm, ...harm }
    this.#later("harm", seconds, () => {
      this.#harm = noHarm
    })
  }

  /** Other footage of the same codec in a profile, from its next key frame. Throws where there is no such profile or file. */
  show(profile: string, file: string): void {
    this.#profile(profile).show(file)
  }

  /** RTP timestamps of every track of every profile jump. */
  jumpTimestamps(seconds: number): void {
    for (const mount of this.mounts) mount.jump(seconds)
  }

  /** The camera's wall clock, as told by sender reports, jumps. */
  jumpClock(milliseconds: number): void {
    this.#clockOffsetMs += milliseconds
  }

  /** More sessions are refused with 453; null: no limit. */
  limitSessions(most: number | null): void {
    this.#maxSessions = most ?? Number.POSITIVE_INFINITY
  }

  /** As if the password had been changed; sessions that play go on. */
  rejectLogin(reject: boolean): void {
    this.#rejectsLogin = reject
  }

  /** Each answer waits so long. */
  slow(milliseconds: number): void {
    this.slowMs = milliseconds
  }

  /** Undoes every fault, jumps of clocks excepted. */
  async restore(): Promise<void> {
    this.thaw()
    this.harm({})
    this.limitSessions(null)
    this.rejectLogin(false)
    this.slow(0)
    await this.mend()
  }

  url(profile: string): string {
    return `rtsp://${this.host}:${this.#port}${this.#profile(profile).path}`
  }

  report(): CameraReport {
    const sessions = [...this.#ended, ...this.#sessions.values()]
    return {
      name: this.options.name,
      port: this.#port,
      cut: this.#server === null,
      frozen: this.#frozen,
      harm: this.#harm,
      requests: { ...this.counters.requests },
      connections: this.counters.connections,
      mounts: this.mounts.map((mount) => ({
        path: mount.path,
        profile: mount.profile,
        url: this.url(mount.profile),
        codec: mount.video.codec,
        width: mount.video.width,
        height: mount.video.height,
        rate: mount.video.rate,
        audio: mount.audioCodec,
        viewers: mount.sessions.size,
        video: { ...mount.tracks[0]!.sent },
        audioSent: mount.tracks[1] === undefined ? null : { ...mount.tracks[1].sent },
      })),
      heard: { packets: this.loudspeaker.heard.packets, loudSamples: this.loudspeaker.loudSamples },
      sessions: sessions.map((session) => ({
        id: session.id,
        mount: session.mount,
        playing: session.playing,
        openedMs: session.openedMs,
        endedMs: session.endedMs,
        endCause: session.endCause,
        droppedPackets: session.droppedPackets,
        harmedPackets: session.harmedPackets,
        harmedFrames: [...session.harmedFrames],
        video: copyOf(session.sent(0)),
        audio: copyOf(session.sent(1)),
      })),
    }
  }

  get credentials(): Credentials {
    const { auth: scheme, nonceUses, password, username } = this.options
    return { scheme, username, nonceUses, password: this.#rejectsLogin ? randomBytes(16).toString("hex") : password }
  }

  get udpPorts(): { readonly rtp: number; readonly rtcp: number } | null {
    return this.#udp?.ports ?? null
  }

  get sessionsFull(): boolean {
    return this.#sessions.size >= this.#maxSessions
  }

  /** By URL or path, a track's control or a query at its end left out. */
  mountOf(url: string): Mount | null {
    const wanted = url.replace(/^rtsp:\/\/[^/]*/i, "").replace(/\?[^/]*/, "").replace(/\/track\d+\/?$/, "").replace(
      /\/$/,
      "",
    )
    return this.mounts.find((mount) => mount.path === wanted) ?? null
  }

  session(id: string): Session | null {
    return this.#sessions.get(id) ?? null
  }

  openSession(mount: Mount, connection: net.Socket): Session {
    const around: Surroundings = {
      harm: () => this.#harm,
      random: this.#random,
      clockOffsetMs: () => this.#clockOffsetMs,
      pacing: this.options.pacing,
      startAtKey: this.options.startAtKey,
      reportSeconds: this.options.reportSeconds,
      sockets: () => this.#udp,
    }
    const session = new Session(randomBytes(8).toString("hex"), mount.path, connection, around)
    this.#sessions.set(session.id, session)
    return session
  }

  endSession(session: Session, cause: string): void {
    session.end(cause)
    this.mountOf(session.mount)?.leave(session)
    if (!this.#sessions.delete(session.id)) return
    this.#ended.push(session)
    if (this.#ended.length > ENDED_KEPT) this.#ended.shift()
  }

  connectionClosed(socket: net.Socket): void {
    this.#sockets.delete(socket)
    for (const session of this.#sessions.values()) {
      if (session.connection === socket && session.usesConnection) this.endSession(session, "connection closed")
    }
  }

  #profile(name: string): Mount {
    const mount = this.mounts.find((one) => one.profile === name)
    if (mount === undefined) throw new Error(`camera ${this.index} has no profile ${name}`)
    return mount
  }

  #setFrozen(frozen: boolean): void {
    this.#frozen = frozen
    for (const mount of this.mounts) mount.frozen = frozen
  }

  async #listen(): Promise<void> {
    const server = net.createServer((socket) => {
      this.counters.connections++
      this.#sockets.add(socket)
      serve(this, socket)
    })
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject)
      server.listen(this.#port, this.host, () => resolve())
    })
    this.#port = (server.address() as net.AddressInfo).port
    this.#server = server
  }

  async #shut(cause: string): Promise<void> {
    const server = this.#server
    this.#server = null
    for (const session of this.#sessions.values()) this.endSession(session, cause)
    const closed = server === null ? Promise.resolve() : new Promise<void>((resolve) => server.close(() => resolve()))
    for (const socket of this.#sockets) socket.destroy()
    await closed
  }

  #endIdle(): void {
    const limitMs = this.options.sessionTimeoutSeconds * 1000
    if (limitMs === 0) return
    for (const session of this.#sessions.values()) {
      if (wallNow() - session.lastRequestMs <= limitMs * 1.2) continue
      this.endSession(session, "timeout")
      if (session.usesConnection) session.connection.destroySoon()
    }
  }

  #later(name: string, seconds: number | null, undo: () => void): void {
    this.#cancel(name)
    if (seconds !== null) this.#timers.set(name, setTimeout(undo, seconds * 1000))
  }

  #cancel(name: string): void {
    clearTimeout(this.#timers.get(name))
    this.#timers.delete(name)
  }
}

const copyOf = (sent: TrackCount | null): TrackCount | null => (sent === null ? null : { ...sent })

const bound = (host: string, port: number): Promise<dgram.Socket> =>
  new Promise((resolve, reject) => {
    const socket = dgram.createSocket("udp4")
    socket.once("error", (error) => {
      socket.close()
      reject(error)
    })
    socket.bind(port, host, () => {
      socket.removeAllListeners("error")
      // A viewer that has gone answers with ICMP; a camera does not mind.
      socket.on("error", () => {})
      resolve(socket)
    })
  })

/** An even port for RTP and the odd one after it for RTCP (RFC 3550, section 11). */
const udpPair = async (
  host: string,
): Promise<{ rtp: dgram.Socket; rtcp: dgram.Socket; ports: { rtp: number; rtcp: number } }> => {
  for (let attempt = 0; attempt < 50; attempt++) {
    const rtp = await bound(host, 0)
    const port = rtp.address().port
    const rtcp = port % 2 === 0 ? await bound(host, port + 1).catch(() => null) : null
    if (rtcp !== null) return { rtp, rtcp, ports: { rtp: port, rtcp: port + 1 } }
    rtp.close()
  }
  throw new Error("no pair of UDP ports is free")
}
