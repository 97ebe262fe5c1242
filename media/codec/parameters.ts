/**
 * The parameter sets of one video track: what the SDP and the stream brought, and which of them the pictures use now.
 *
 * Invariants
 * 1. A set is kept under its id until one with the same id and other bytes replaces it; an equal one changes nothing.
 * 2. Parameters change only at a picture that decoding can start at, and only where a set that it uses has other bytes.
 * 3. A set that came in the stream and is not among those in force stays in the unit's data: no byte that a decoder needs
 *    is lost where a camera uses several sets side by side.
 * 4. At most `maxSetBytes` bytes a set, as many sets as there are ids (H.264: 32 + 256, H.265: 16 + 16 + 64).
 */
import type { VideoCodec, VideoParameters } from "#schema/media.ts"
import { maxSetBytes } from "./bits.ts"
import { nal264, parsePps264, parseSps264, type Pps, slicePps264, type Sps } from "./h264.ts"
import { nal265, parsePps265, parseSps265, parseVps265, slicePps265 } from "./h265.ts"
import { Malformed } from "./malformed.ts"

interface Stored<A> {
  readonly bytes: Uint8Array
  readonly parsed: A
}

const noBytes = new Uint8Array(0)
const same = (a: Uint8Array, b: Uint8Array) => a.length === b.length && Buffer.compare(a, b) === 0

/** Sets that one unit may bring before the rest is ignored; a camera sends two or three. */
const maxSetsInUnit = 32

export class ParameterSets {
  readonly codec: VideoCodec
  private readonly vps = new Map<number, Stored<number>>()
  private readonly sps = new Map<number, Stored<Sps>>()
  private readonly pps = new Map<number, Stored<Pps>>()
  /** What came since the last unit was finished. */
  private inUnit: Array<Uint8Array> = []
  private current: VideoParameters | null = null

  constructor(codec: VideoCodec) {
    this.codec = codec
  }

  get inForce(): VideoParameters | null {
    return this.current
  }

  /** Whether `type` is the type of a parameter set. */
  isSet(type: number): boolean {
    return this.codec === "h264" ?
      type === nal264.sps || type === nal264.pps :
      type >= nal265.vps && type <= nal265.pps
  }

  /** Sets from the SDP: what is malformed or of another type there is left out, the stream will bring better ones. */
  seed(nals: ReadonlyArray<Uint8Array>): void {
    for (const nal of nals) {
      try {
        this.store(Uint8Array.from(nal))
      } catch (error) {
        if (!(error instanceof Malformed)) throw error
      }
    }
  }

  /** A set from the stream, header included; the bytes are copied where they are new. Throws `Malformed`. */
  offer(nal: Uint8Array): void {
    const stored = this.store(nal)
    if (this.inUnit.length < maxSetsInUnit) this.inUnit.push(stored)
  }

  private store(nal: Uint8Array): Uint8Array {
    const type = this.codec === "h264" ? nal[0]! & 31 : (nal[0]! >> 1) & 63
    if (nal.length > maxSetBytes || !this.isSet(type)) {
      throw new Malformed({ what: "parameter set", at: 0, unit: "byte", detail: `type ${type}, ${nal.length} bytes` })
    }
    if (this.codec === "h264") {
      return type === nal264.sps ? keep(this.sps, nal, parseSps264, byId) : keep(this.pps, nal, parsePps264, byId)
    }
    if (type === nal265.vps) return keep(this.vps, nal, parseVps265, (id) => id)
    return type === nal265.sps ? keep(this.sps, nal, parseSps265, byId) : keep(this.pps, nal, parsePps265, byId)
  }

  /**
   * At a unit that decoding can start at: chooses the sets that its first slice names. True where they differ from those in
   * force before (`inForce` then has the new ones).
   */
  select(slice: Uint8Array): boolean {
    const id = this.codec === "h264" ? slicePps264(slice) : slicePps265(slice)
    return this.use(this.pps.get(id) ?? firstOf(this.pps))
  }

  /** Before the first unit, where it is no key: takes the first sets there are. */
  selectAny(): boolean {
    return this.current === null && this.use(firstOf(this.pps))
  }

  private use(pps: Stored<Pps> | undefined): boolean {
    const sps = pps === undefined ? undefined : this.sps.get(pps.parsed.spsId)
    if (pps === undefined || sps === undefined) return false
    const vps = this.codec === "h265" ? this.vps.get(sps.parsed.vpsId)?.bytes : noBytes
    if (vps === undefined) return false
    const old = this.current
    if (old !== null && old.sps === sps.bytes && old.pps === pps.bytes && old.vps === vps) return false
    const { width, height, codecs } = sps.parsed
    this.current = { codec: this.codec, width, height, codecs, vps, sps: sps.bytes, pps: pps.bytes }
    return true
  }

  /** Ends the unit: what it brought and no parameters in force contain, to be put in front of its data. */
  takeExtras(): ReadonlyArray<Uint8Array> {
    if (this.inUnit.length === 0) return []
    const { current } = this
    const extras = this.inUnit.filter((nal) =>
      current === null || (nal !== current.sps && nal !== current.pps && nal !== current.vps)
    )
    this.inUnit = []
    return extras
  }
}

const byId = (set: { readonly id: number }) => set.id

const firstOf = <A>(sets: ReadonlyMap<number, Stored<A>>): Stored<A> | undefined => sets.values().next().value

const keep = <A>(
  sets: Map<number, Stored<A>>,
  nal: Uint8Array,
  parse: (nal: Uint8Array) => A,
  id: (parsed: A) => number,
): Uint8Array => {
  for (const stored of sets.values()) {
    if (same(stored.bytes, nal)) return stored.bytes
  }
  const parsed = parse(nal)
  const bytes = Uint8Array.from(nal)
  sets.set(id(parsed), { bytes, parsed })
  return bytes
}
