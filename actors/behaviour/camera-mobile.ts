/**
 * The service `MobileCameras`: tickets, claims, and what a claimed phone may do.
 *
 * Invariants
 * 1. A claim that does not become a camera (the licence, an outage) leaves its code as it was.
 * 2. After {@link freeFailures} wrong codes within {@link windowMs} an address waits until the window has passed; IPv6 counts by customer
 *    (/64). At most {@link mostAddresses} are remembered, by this node alone: the code's 60 bits are what protects, this is a brake.
 * 3. A code that is taken becomes a camera within {@link claimingMs} or never: until then it is told as prepared, not as expired.
 * 4. Unregistering ends publishing on this node at once, on others within seconds (`camera-publish.ts`).
 */
import { MobileCameras } from "#actors/protocol/camera-mobile.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { CameraMobileStore, type MobileTicketRow } from "#actors/store/camera-mobile.ts"
import { Ownership } from "#cluster/ownership.ts"
import { Publishers } from "#media/publish.ts"
import { addressOf } from "#schema/auth-network.ts"
import {
  claimAlphabet,
  ClaimCodeInvalid,
  claimLength,
  claimMinutes,
  DeviceUuid,
  maxPrepared,
  mobileAddress,
  MobileNotFound,
  type MobilePrepare,
  plainClaimCode,
  PublishRefused,
  spacedClaimCode,
} from "#schema/camera-mobile.ts"
import { CameraId, ChannelId, type EpochMs, StreamId } from "#schema/common.ts"
import { TooManyRequests } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Layer, Redacted } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { createHash, randomBytes } from "node:crypto"

const freeFailures = 10
const windowMs = 600_000
const mostAddresses = 10_000
/** Bits of an IPv6 address that tell one customer from another (RFC 6177). */
const customerBits = 64
const secretBytes = 32
/** A claim makes a camera by a handful of statements; one whose node died meanwhile comes to nothing. */
const claimingMs = 60_000

const hashOf = (text: string): Uint8Array => createHash("sha256").update(text).digest()

/** 256 is a multiple of 32: each letter is as likely as the others. */
const newCode = (): string =>
  Array.from(randomBytes(claimLength), (byte) => claimAlphabet[byte % claimAlphabet.length]!).join("")

const subjectOf = (address: string): string => {
  const ip = addressOf(address)
  return ip === null || NetAddress.width(ip) === 32 ?
    address :
    IpNetwork.format(IpNetwork.fromAddressUnsafe(ip, customerBits))
}

/** Wrong codes by address. */
const makeBrake = () => {
  const failures = new Map<string, { count: number; since: EpochMs }>()
  return {
    check: (address: string, nowMs: EpochMs) =>
      Effect.suspend(() => {
        const one = failures.get(subjectOf(address))
        const left = one === undefined ? 0 : one.since + windowMs - nowMs
        if (one === undefined || left <= 0 || one.count < freeFailures) return Effect.void
        const retryAfterSeconds = Math.ceil(left / 1_000)
        return Effect.fail(
          new TooManyRequests({ message: "Too many wrong codes from this address", retryAfterSeconds }),
        )
      }),
    failed: (address: string, nowMs: EpochMs) => {
      const subject = subjectOf(address)
      const one = failures.get(subject)
      const running = one !== undefined && nowMs - one.since < windowMs
      failures.delete(subject)
      failures.set(subject, running ? { ...one, count: one.count + 1 } : { count: 1, since: nowMs })
      const oldest = failures.keys().next()
      if (failures.size > mostAddresses && oldest.done !== true) failures.delete(oldest.value)
    },
  }
}

const make = Effect.gen(function*() {
  const [store, cameras, ownership, publishers] = yield* Effect.all([CameraMobileStore, Cameras, Ownership, Publishers])
  const brake = makeBrake()

  const prepare = Effect.fn("MobileCameras.prepare")(function*(input: MobilePrepare) {
    const nowMs = yield* Clock.currentTimeMillis
    const deviceUuid = DeviceUuid.make(yield* uuid7)
    const code = newCode()
    const expiresAt = nowMs + claimMinutes * 60_000
    const { description = "", name, tags = [] } = input
    const ticket = { deviceUuid, name, description, tags, codeHash: hashOf(code), expiresMs: expiresAt }
    if (!(yield* store.prepare(ticket, maxPrepared, nowMs))) {
      const message = `${maxPrepared} phones wait to be claimed; claim some or wait until their codes expire`
      return yield* new TooManyRequests({ message, retryAfterSeconds: claimMinutes * 60 })
    }
    return { deviceUuid, claimCode: Redacted.make(spacedClaimCode(code)), expiresAt }
  })

  /** The camera behind a ticket, with one channel and one stream. */
  const place = Effect.fnUntraced(function*(ticket: MobileTicketRow) {
    const [id, channelId, streamId] = [yield* uuid7, yield* uuid7, yield* uuid7]
    const cameraId = CameraId.make(id)
    yield* cameras.place({
      id: cameraId,
      homeNodeId: ownership.nodeId,
      name: ticket.name,
      description: ticket.description,
      driver: "mobile",
      host: null,
      port: null,
      enabled: true,
      username: null,
      sealedPassword: null,
      tags: ticket.tags,
      channels: [{
        id: ChannelId.make(channelId),
        name: ticket.name,
        active: true,
        streams: [{
          id: StreamId.make(streamId),
          role: "main",
          sourceUrl: mobileAddress(ticket.deviceUuid),
          transport: "udp",
          enabled: true,
          username: null,
          sealedPassword: null,
        }],
      }],
    })
    return { cameraId, streamId: StreamId.make(streamId) }
  })

  const claim = Effect.fn("MobileCameras.claim")(function*(code: Redacted.Redacted, address: string) {
    const nowMs = yield* Clock.currentTimeMillis
    yield* brake.check(address, nowMs)
    const codeHash = hashOf(plainClaimCode(Redacted.value(code)))
    const ticket = yield* store.take(codeHash, nowMs)
    if (ticket === null) {
      brake.failed(address, nowMs)
      return yield* new ClaimCodeInvalid()
    }
    const secret = randomBytes(secretBytes).toString("base64url")
    const { cameraId } = yield* place(ticket).pipe(
      Effect.tap((made) =>
        Effect.onError(store.bind(ticket.deviceUuid, { ...made, secretHash: hashOf(secret) }), () =>
          Effect.ignore(cameras.remove(made.cameraId, null)))
      ),
      Effect.onError(() =>
        Effect.ignore(store.giveBack(ticket.deviceUuid, codeHash))
      ),
    )
    return { deviceUuid: ticket.deviceUuid, cameraId, name: ticket.name, publishSecret: Redacted.make(secret) }
  })

  const status = Effect.fn("MobileCameras.status")(function*(id: DeviceUuid) {
    const row = yield* store.get(id)
    if (row === null) return yield* new MobileNotFound({ deviceUuid: id })
    const nowMs = yield* Clock.currentTimeMillis
    const camera = row.cameraId === null ?
      null :
      yield* cameras.get(row.cameraId).pipe(Effect.catchTag("CameraNotFound", () => Effect.succeed(null)))
    const waiting = row.claimedAt === null ?
      row.codeExpiresAt.getTime() > nowMs :
      row.claimedAt.getTime() > nowMs - claimingMs
    return {
      deviceUuid: id,
      name: camera?.name ?? row.name,
      state: row.cameraId !== null ? "claimed" as const : waiting ? "prepared" as const : "expired" as const,
      cameraId: row.cameraId,
      publishing: publishers.isHere(mobileAddress(id)) || camera?.status === "online",
      expiresAt: row.codeExpiresAt.getTime(),
      claimedAt: row.claimedAt?.getTime() ?? null,
    }
  })

  const unregister = Effect.fn("MobileCameras.unregister")(function*(id: DeviceUuid) {
    const row = yield* store.get(id)
    if (row === null || !(yield* store.remove(id))) return yield* new MobileNotFound({ deviceUuid: id })
    publishers.end(mobileAddress(id))
    if (row.cameraId === null) return { cameraStays: false }
    return yield* cameras.remove(row.cameraId, null).pipe(
      Effect.as({ cameraStays: false }),
      Effect.catchTag("CameraNotFound", () => Effect.succeed({ cameraStays: false })),
      // Footage is never deleted as a side effect; without a version to match nothing conflicts.
      Effect.catchTag(["StillRecorded", "VersionConflict"], () => Effect.succeed({ cameraStays: true })),
    )
  })

  return MobileCameras.of({
    prepare,
    claim,
    status,
    unregister,
    publisher: (secret) =>
      Effect.flatMap(
        store.publisher(hashOf(Redacted.value(secret))),
        (found) => found === null ? Effect.fail(new PublishRefused()) : Effect.succeed(found),
      ),
    known: store.known,
  })
})

export const layer = Layer.effect(MobileCameras, make)
