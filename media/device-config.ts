/**
 * The door to what a camera can be set to: texts in its picture, sources, audio encoders, focus, network, factory defaults. Part of
 * `device.ts`, whose invariants hold here too.
 *
 * Invariants
 * 1. What a device is set to was checked against its own options first, where it tells any: `InvalidInput` names what it allows.
 * 2. A change answers what the device has afterwards, as the device tells it.
 */
import type {
  AudioEncoder,
  AudioEncoderChange,
  AudioSource,
  FactoryResetMode,
  FocusMove,
  NetworkChange,
  NetworkChanged,
  NetworkInterface,
  Osd,
  OsdChange,
  OsdCreate,
  OsdOptions,
  VideoSource,
  VideoSourceChange,
} from "#schema/camera-config.ts"
import type { DeviceError } from "#schema/camera-device.ts"
import type { InvalidInput } from "#schema/problem.ts"
import type { Effect } from "effect"

type Answer<A, E = never> = Effect.Effect<A, E | DeviceError>
type Change<A> = Answer<A, InvalidInput>

export interface DeviceConfig {
  readonly osds: Answer<ReadonlyArray<Osd>>
  readonly osd: (token: string) => Answer<Osd>
  /** Of a video source configuration; null: the first. */
  readonly osdOptions: (source: string | null) => Answer<OsdOptions>
  readonly createOsd: (input: OsdCreate) => Change<Osd>
  readonly setOsd: (token: string, change: OsdChange) => Change<Osd>
  readonly deleteOsd: (token: string) => Answer<void>
  readonly videoSources: Answer<ReadonlyArray<VideoSource>>
  readonly setVideoSource: (token: string, change: VideoSourceChange) => Change<VideoSource>
  readonly audioSources: Answer<ReadonlyArray<AudioSource>>
  readonly audioEncoders: Answer<ReadonlyArray<AudioEncoder>>
  readonly setAudioEncoder: (token: string, change: AudioEncoderChange) => Change<AudioEncoder>
  /** Of a video source, by its token. A continuous move goes on to the end of the range unless it is stopped. */
  readonly moveFocus: (source: string, move: FocusMove) => Change<void>
  readonly stopFocus: (source: string) => Answer<void>
  readonly networkInterfaces: Answer<ReadonlyArray<NetworkInterface>>
  /** The device may be gone before it answers: then `CameraUnreachable`, and nobody knows whether it took the change. */
  readonly setNetworkInterface: (token: string, change: NetworkChange) => Change<NetworkChanged>
  readonly factoryReset: (mode: FactoryResetMode) => Answer<void>
}
