/**
 * AAC: AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1), as it stands in hexadecimal in the SDP (RFC 3640, section 4.1).
 *
 * Invariants
 * 1. Only general audio with a known sample rate is accepted; the rest is `Malformed`.
 */
import { BitReader } from "./bits.ts"
import { Malformed } from "./malformed.ts"

export interface AacConfig {
  readonly objectType: number
  /** Rate of the core coder. */
  readonly coreRate: number
  /** Rate that comes out of the decoder: twice the core's with explicit spectral band replication. */
  readonly outputRate: number
  readonly channels: number
  /** Samples of one frame at `outputRate`. */
  readonly frameSamples: number
  /** RFC 6381, for example `mp4a.40.2`. */
  readonly codecs: string
}

const rates = [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350]
const channelCounts = [0, 1, 2, 3, 4, 5, 6, 8]
const escapeType = 31
const explicitRate = 15
const spectralBand = 5
const parametricStereo = 29
const backwardCompatible = 0x2b7

const objectType = (reader: BitReader) => {
  const type = reader.bits(5)
  return type === escapeType ? 32 + reader.bits(6) : type
}

const sampleRate = (reader: BitReader) => {
  const index = reader.bits(4)
  const rate = index === explicitRate ? reader.bits(24) : rates[index]
  if (rate === undefined || rate < 1000 || rate > 192_000) reader.fail("unknown sample rate")
  return rate
}

/** The extension that old decoders skip (1.6.5.2): spectral band replication announced behind the configuration. */
const trailingRate = (reader: BitReader): number | null => {
  if (reader.left < 16 || reader.bits(11) !== backwardCompatible) return null
  if (objectType(reader) !== spectralBand || reader.left < 5 || reader.bit() === 0) return null
  return sampleRate(reader)
}

export const parseAacConfig = (config: Uint8Array): AacConfig => {
  if (config.length > 64) {
    throw new Malformed({ what: "AudioSpecificConfig", at: 64, unit: "byte", detail: "longer than 64 bytes" })
  }
  const reader = new BitReader("AudioSpecificConfig", config)
  const signalled = objectType(reader)
  const coreRate = sampleRate(reader)
  const channelIndex = reader.bits(4)
  let outputRate = coreRate
  let core = signalled
  if (signalled === spectralBand || signalled === parametricStereo) {
    outputRate = sampleRate(reader)
    core = objectType(reader)
  }
  if (![1, 2, 3, 4, 6, 7, 17, 19, 20, 21, 22, 23].includes(core)) {
    reader.fail(`object type ${core} is not general audio`)
  }
  const short = reader.bit()
  if (reader.bit() === 1) reader.pass(14)
  reader.bit()
  if (outputRate === coreRate && core === signalled) outputRate = trailingRate(reader) ?? coreRate
  const coreSamples = core === 23 ? (short === 1 ? 480 : 512) : short === 1 ? 960 : 1024
  return {
    objectType: signalled,
    coreRate,
    outputRate,
    channels: signalled === parametricStereo ? 2 : channelCounts[channelIndex] ?? 0,
    frameSamples: Math.round(coreSamples * outputRate / coreRate),
    codecs: `mp4a.40.${signalled}`,
  }
}
