/**
 * The backup of cameras: one JSON document that tells everything a person has set of them, to be read again by this or another
 * installation.
 *
 * Invariants
 * 1. A password stands in it only sealed under the caller's passphrase; without one the document has no passwords at all.
 * 2. A sealed password opens only beside the addresses it was exported with: in a changed document it goes nowhere else.
 * 3. `version` changes where members change their meaning; members that are not known are passed over.
 */
import { Schema } from "effect"
import { CameraCreate, DriverKind, maxChannels, StreamCreate } from "./camera.ts"
import { CameraId, ChannelId, Instant, StreamId } from "./common.ts"

export const backupFormat = "nightjar-cameras"
export const maxBackupCameras = 10_000
/** Request header that carries the passphrase. */
export const passphraseHeader = "nightjar-passphrase"

/** In the header it is percent-encoded UTF-8 (RFC 3986, section 2.1), as headers carry ASCII. */
export const Passphrase = Schema.RedactedFromValue(
  Schema.String.check(
    Schema.isMaxLength(1_024),
    Schema.makeFilter((text: string) => {
      try {
        return decodeURIComponent(text).length >= 12 || "Expected at least 12 characters"
      } catch {
        return "Expected percent-encoded UTF-8"
      }
    }),
  ),
)

/** How passwords are sealed: scrypt (RFC 7914) makes the key of the passphrase (NFKC, UTF-8), AES-256-GCM seals with it. */
export const Sealing = Schema.Struct({
  kdf: Schema.Literal("scrypt"),
  n: Schema.Literal(65_536),
  r: Schema.Literal(8),
  p: Schema.Literal(1),
  /** base64url, 16 bytes. */
  salt: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{22}$/)),
  cipher: Schema.Literal("A256GCM"),
  /** A known text, sealed: tells a wrong passphrase before anything is opened. */
  check: Schema.String.check(Schema.isMaxLength(256)),
})
export type Sealing = typeof Sealing.Type

/** base64url of nonce (12 bytes), ciphertext and tag (16 bytes). */
const SealedPassword = Schema.NullOr(Schema.String.check(Schema.isMaxLength(4_096)))

export const BackupStream = Schema.Struct({
  id: StreamId,
  role: StreamCreate.fields.role,
  /** As it is kept: without credentials. */
  sourceUrl: Schema.String.check(Schema.isMaxLength(2_048)),
  transport: Schema.Literals(["tcp", "udp"]),
  enabled: Schema.Boolean,
  /** Documents of earlier versions do not have it. */
  onDemand: Schema.optionalKey(Schema.Boolean),
  username: Schema.NullOr(Schema.String.check(Schema.isMaxLength(256))),
  hasPassword: Schema.Boolean,
  sealedPassword: SealedPassword,
})
export type BackupStream = typeof BackupStream.Type

export const BackupChannel = Schema.Struct({
  id: ChannelId,
  name: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(120)),
  active: Schema.Boolean,
  streams: Schema.Array(BackupStream).check(Schema.isMaxLength(2)),
})
export type BackupChannel = typeof BackupChannel.Type

const Told = Schema.NullOr(Schema.String.check(Schema.isMaxLength(120)))

export const BackupCamera = Schema.Struct({
  id: CameraId,
  name: CameraCreate.fields.name,
  description: Schema.String.check(Schema.isMaxLength(2_000)),
  driver: DriverKind,
  host: Schema.NullOr(Schema.String.check(Schema.isMaxLength(253))),
  port: Schema.NullOr(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 }))),
  enabled: Schema.Boolean,
  username: Schema.NullOr(Schema.String.check(Schema.isMaxLength(256))),
  hasPassword: Schema.Boolean,
  sealedPassword: SealedPassword,
  tags: Schema.Array(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(40))).check(Schema.isMaxLength(32)),
  manufacturer: Told,
  model: Told,
  firmware: Told,
  serial: Told,
  channels: Schema.Array(BackupChannel).check(Schema.isMaxLength(maxChannels)),
}).annotate({ identifier: "BackupCamera" })
export type BackupCamera = typeof BackupCamera.Type

/** The document, in the order of the cameras. */
export const CameraBackup = Schema.Struct({
  format: Schema.Literal(backupFormat),
  version: Schema.Literal(1),
  exportedAt: Instant,
  /** Null: passwords were left out. */
  sealing: Schema.NullOr(Sealing),
  cameras: Schema.Array(BackupCamera).check(Schema.isMaxLength(maxBackupCameras)),
  /** Number of cameras: a document that was cut off does not have it. */
  count: Schema.Int,
}).annotate({ identifier: "CameraBackup" })

/** What a secret is sealed for: whose it is and the addresses it is sent to. */
export const backupSecret = (
  camera: Pick<BackupCamera, "id" | "host" | "port" | "channels">,
  stream?: BackupStream,
): string =>
  JSON.stringify(
    stream === undefined ?
      [
        "camera",
        camera.id,
        camera.host,
        camera.port,
        camera.channels.flatMap((one) => one.streams.map((at) => at.sourceUrl)),
      ] :
      ["stream", stream.id, stream.sourceUrl],
  )
