/**
 * One RTSP session: carries the packets of a mount to one viewer, over the connection (interleaved) or by UDP.
 *
 * Invariants
 * 1. What is counted as sent was handed to the system, or harmed on purpose and counted as such.
 * 2. A viewer that leaves more than `BACKLOG_BYTES` in its socket loses its connection: a camera does not wait.
 * 3. Packets of a track keep their order, unless reordering is asked for.
 */
import type * as dgram from "node:dgram"
import type * as net from "node:net"
import { wallNow } from "./feed.ts"
import type { Harm } from "./options.ts"
import { bye, senderReport, type Template } from "./packets.ts"

const BACKLOG_BYTES = 4 * 1024 * 1024
const HARMED_KEPT = 10_000

export type Transport =
  | { readonly kind: "tcp"; readonly channel: number; readonly reportChannel: number }
  | { readonly kind: "udp"; readonly address: string; readonly port: number; readonly reportPort: number }

/** What was sent of one track; numbers are those of frames (video) or audio units. */
export interface TrackCount {
  units: number
  packets: number
  octets: number
  first: number | null
  /** First key frame sent. */
  firstKey: number | null
  last: number | null
  firstMs: number | null
  lastMs: number | null
}

export const emptyCount = (): TrackCount => ({
  units: 0,
  packets: 0,
  octets: 0,
  first: null,
  firstKey: null,
  last: null,
  firstMs: null,
  lastMs: null,
})

export const count = (into: TrackCount, unit: number, template: Template): void => {
  const now = wallNow()
  into.units++
  into.packets += template.packets.length
  into.octets += template.bytes.length - template.packets.length * 16
  into.first ??= unit
  if (template.key) into.firstKey ??= unit
  into.last = unit
  into.firstMs ??= now
  into.lastMs = now
}

/** What a session needs of the camera it belongs to. */
export interface Surroundings {
  readonly harm: () => Harm
  readonly random: () => number
  readonly clockOffsetMs: () => number
  readonly pacing: "burst" | "spread"
  readonly startAtKey: boolean
  readonly reportSeconds: number
  readonly sockets: () => { readonly rtp: dgram.Socket; readonly rtcp: dgram.Socket } | null
}

/** One unit, stamped, on its way to the viewers of a mount. */
export interface Shipment {
  readonly track: number
  readonly unit: number
  readonly template: Template
  /** Stamped for interleaved channel 0; shared between sessions, not to be written to. */
  readonly bytes: Buffer
  readonly ssrc: number
  readonly unitMs: number
  /** RTP timestamp, not wrapped, at a moment. */
  readonly ticksAt: (wallMs: number) => number
}

interface Lane {
  readonly transport: Transport
  readonly sent: TrackCount
  ssrc: number
  waitsForKey: boolean
  reportedMs: number
  /** A packet held back to be sent after its successor. */
  held: Buffer | null
  paced: Array<Buffer>
  timer: NodeJS.Timeout | null
}

export class Session {
  readonly id: string
  readonly mount: string
  readonly openedMs = wallNow()
  lastRequestMs = wallNow()
  playing = false
  endedMs: number | null = null
  endCause = ""
  droppedPackets = 0
  harmedPackets = 0
  /** Video frames of which a packet was dropped or corrupted on purpose, at most `HARMED_KEPT`. */
  readonly harmedFrames: Array<number> = []
  readonly connection: net.Socket
  readonly #lanes = new Map<number, Lane>()
  readonly #around: Surroundings

  constructor(id: string, mount: string, connection: net.Socket, around: Surroundings) {
    this.id = id
    this.mount = mount
    this.connection = connection
    this.#around = around
  }

  setUp(track: number, transport: Transport): void {
    this.#lanes.set(track, {
      transport,
      sent: emptyCount(),
      ssrc: 0,
      waitsForKey: this.#around.startAtKey,
      reportedMs: 0,
      held: null,
      paced: [],
      timer: null,
    })
  }

  get tracks(): ReadonlyArray<number> {
    return [...this.#lanes.keys()]
  }

  get usesConnection(): boolean {
    return [...this.#lanes.values()].some((lane) => lane.transport.kind === "tcp")
  }

  sent(track: number): TrackCount | null {
    return this.#lanes.get(track)?.sent ?? null
  }

  deliver(shipment: Shipment): void {
    const lane = this.#lanes.get(shipment.track)
    if (!this.playing || lane === undefined) return
    if (lane.waitsForKey && !shipment.template.key) return
    lane.waitsForKey = false
    lane.ssrc = shipment.ssrc
    if (this.connection.writableLength > BACKLOG_BYTES) {
      this.endCause = "backlog"
      this.connection.destroy()
      return
    }
    this.#report(lane, shipment)
    count(lane.sent, shipment.unit, shipment.template)
    const harm = this.#around.harm()
    const harmed = harm.dropPercent + harm.reorderPercent + harm.corruptPercent + harm.garbagePercent > 0 ||
      lane.held !== null
    const whole = lane.transport.kind === "tcp" && this.#around.pacing === "burst" && !harmed
    if (whole) this.#write(lane, shipment.bytes, shipment.template.packets)
    else this.#ship(lane, this.#packets(lane, shipment, harmed ? harm : null), shipment.unitMs)
  }

  end(cause: string): void {
    if (this.endedMs !== null) return
    this.playing = false
    this.endedMs = wallNow()
    if (this.endCause === "") this.endCause = cause
    for (const lane of this.#lanes.values()) {
      if (lane.timer !== null) clearTimeout(lane.timer)
      if (cause !== "cut" && lane.sent.units > 0) this.#control(lane, bye(lane.ssrc))
    }
  }

  #packets(lane: Lane, shipment: Shipment, harm: Harm | null): Array<Buffer> {
    const { bytes, template } = shipment
    const whole = template.packets.map((at, i) => bytes.subarray(at, template.packets[i + 1] ?? bytes.length))
    if (harm === null) return whole
    const chance = (percent: number): boolean => percent > 0 && this.#around.random() * 100 < percent
    const out: Array<Buffer> = []
    for (const packet of whole) {
      if (chance(harm.dropPercent)) {
        this.droppedPackets++
        this.#note(shipment)
        continue
      }
      if (chance(harm.garbagePercent) && lane.transport.kind === "tcp") out.push(this.#garbage())
      let next = packet
      if (chance(harm.corruptPercent)) {
        next = this.#corrupted(packet)
        this.#note(shipment)
      }
      if (lane.held === null && chance(harm.reorderPercent)) {
        lane.held = next
        this.harmedPackets++
        continue
      }
      out.push(next)
      if (lane.held !== null) out.push(lane.held)
      lane.held = null
    }
    return out
  }

  #note(shipment: Shipment): void {
    if (shipment.track === 0 && this.harmedFrames.at(-1) !== shipment.unit && this.harmedFrames.length < HARMED_KEPT) {
      this.harmedFrames.push(shipment.unit)
    }
  }

  #corrupted(packet: Buffer): Buffer {
    const copy = Buffer.from(packet)
    this.harmedPackets++
    for (let i = 0; i < 8 && copy.length > 16; i++) {
      copy[16 + Math.floor(this.#around.random() * (copy.length - 16))] = Math.floor(this.#around.random() * 256)
    }
    return copy
  }

  #garbage(): Buffer {
    this.harmedPackets++
    return Buffer.from(
      Array.from(
        { length: 1 + Math.floor(this.#around.random() * 200) },
        () => Math.floor(this.#around.random() * 256),
      ),
    )
  }

  #ship(lane: Lane, packets: Array<Buffer>, unitMs: number): void {
    if (this.#around.pacing === "burst" || packets.length < 2) {
      for (const packet of [...this.#flushPaced(lane), ...packets]) this.#one(lane, packet)
      return
    }
    for (const packet of this.#flushPaced(lane)) this.#one(lane, packet)
    lane.paced = packets
    const stepMs = Math.max(1, (unitMs * 0.8) / packets.length)
    const begin = wallNow()
    let gone = 0
    const step = (): void => {
      const due = Math.min(packets.length, 1 + Math.floor((wallNow() - begin) / stepMs))
      for (; gone < due; gone++) this.#one(lane, lane.paced.shift()!)
      lane.timer = lane.paced.length === 0 ? null : setTimeout(step, Math.max(1, begin + gone * stepMs - wallNow()))
    }
    step()
  }

  #flushPaced(lane: Lane): Array<Buffer> {
    if (lane.timer !== null) clearTimeout(lane.timer)
    lane.timer = null
    const rest = lane.paced
    lane.paced = []
    return rest
  }

  #one(lane: Lane, packet: Buffer): void {
    if (lane.transport.kind === "tcp") this.#write(lane, packet, packet[0] === 0x24 ? [0] : [])
    else this.#around.sockets()?.rtp.send(packet.subarray(4), lane.transport.port, lane.transport.address)
  }

  /** `prefixes`: where interleaving prefixes begin, to be set to the viewer's channel. */
  #write(lane: Lane, bytes: Buffer, prefixes: ReadonlyArray<number>): void {
    if (this.connection.destroyed || lane.transport.kind !== "tcp") return
    if (lane.transport.channel === 0) {
      this.connection.write(bytes)
      return
    }
    const own = Buffer.from(bytes)
    for (const at of prefixes) own[at + 1] = lane.transport.channel
    this.connection.write(own)
  }

  #report(lane: Lane, shipment: Shipment): void {
    const now = wallNow()
    const every = this.#around.reportSeconds
    if (every === 0 || now - lane.reportedMs < every * 1000) return
    lane.reportedMs = now
    this.#control(
      lane,
      senderReport({
        ssrc: shipment.ssrc,
        wallMs: now + this.#around.clockOffsetMs(),
        timestamp: shipment.ticksAt(now),
        packets: lane.sent.packets,
        octets: lane.sent.octets,
        cname: "simulated@camera",
      }),
    )
  }

  #control(lane: Lane, bytes: Buffer): void {
    if (lane.transport.kind === "udp") {
      this.#around.sockets()?.rtcp.send(bytes.subarray(4), lane.transport.reportPort, lane.transport.address)
      return
    }
    bytes[1] = lane.transport.reportChannel
    if (!this.connection.destroyed && this.connection.writable) this.connection.write(bytes)
  }
}
