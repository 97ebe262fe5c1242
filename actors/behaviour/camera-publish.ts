/**
 * The service `MobilePublishing`: phones that publish to this node by WebRTC, each as the publisher of its camera's stream.
 *
 * Invariants
 * 1. A phone is let in only where this node serves its camera.
 * 2. It publishes from the moment it is connected; the session that published before for the same phone ends then.
 * 3. Whoever is not registered any more is put out within {@link checkMs}; while that cannot be asked, sessions go on.
 * 4. Sessions are bounded by the peers of the WebRTC door; packets touch no effect.
 */
import { MobileCameras, MobilePublishing } from "#actors/protocol/camera-mobile.ts"
import { type Publication, Publishers } from "#media/publish.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { type IncomingEvents, type IncomingPeer, type IncomingWish, WebRtc } from "#media/webrtc.ts"
import { type DeviceUuid, mobileAddress, PublishingEnded, PublishingPaused } from "#schema/camera-mobile.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { Effect, Layer, type Redacted, Schedule } from "effect"

const checkMs = 2_000
/** 1080p at 30 pictures a second; the browser starts lower and stays below what its network carries. */
const maxBitrate = 4_000_000
const wish: IncomingWish = { video: "required", audio: ["opus"], audioRequired: false, maxBitrate }

interface Session {
  readonly deviceUuid: DeviceUuid
  readonly peer: IncomingPeer
}

const away = (message: string) => new DependencyUnavailable({ dependency: "webrtc", message })

/** From a peer's callbacks to the publication that begins when it is connected. */
const makeBridge = (publishers: Publishers["Service"], address: string, onEnd: () => void) => {
  let peer: IncomingPeer | null = null
  let publication: Publication | null = null
  let connected = false
  const begin = () => {
    if (!connected || peer === null || publication !== null || peer.video === null) return
    const sender = peer
    const formatOf = ({ channels, clockHz, payloadType }: NonNullable<IncomingPeer["audio"]>) => ({
      channels,
      clockHz,
      payloadType,
    })
    publication = publishers.publish(address, {
      video: formatOf(peer.video),
      audio: peer.audio === null ? null : formatOf(peer.audio),
      requestKeyPicture: sender.requestKeyPicture,
      onEnd: () => sender.close(),
    })
  }
  const events: IncomingEvents = {
    onConnected: () => {
      connected = true
      begin()
    },
    onRtp: (track, packet, arrivalMs) => publication?.rtp(track, packet, arrivalMs),
    onSenderReport: (track, report, arrivalMs) => publication?.senderReport(track, report, arrivalMs),
    onEnd: () => {
      publication?.withdraw()
      onEnd()
    },
  }
  return {
    events,
    /** The peer that the events are of. */
    of: (made: IncomingPeer) => {
      peer = made
      begin()
    },
  }
}

const make = Effect.gen(function*() {
  const [mobiles, publishers, supervisor, webRtc] = yield* Effect.all([
    MobileCameras,
    Publishers,
    RecorderSupervisor,
    WebRtc,
  ])
  const sessions = new Map<string, Session>()
  const found = (sessionId: string) =>
    Effect.suspend(() => {
      const session = sessions.get(sessionId)
      return session === undefined ? Effect.fail(new PublishingEnded()) : Effect.succeed(session)
    })

  const open = Effect.fn("MobilePublishing.open")(function*(secret: Redacted.Redacted, offer: string) {
    const { deviceUuid, streamId } = yield* mobiles.publisher(secret)
    const status = supervisor.status(streamId)
    if (status === null) {
      return yield* away("This node does not serve the phone's camera at the moment; try again shortly")
    }
    if (status.health === "disabled") return yield* new PublishingPaused()
    let id: string | null = null
    let over = false
    const bridge = makeBridge(publishers, mobileAddress(deviceUuid), () => {
      over = true
      if (id !== null) sessions.delete(id)
    })
    const peer = yield* webRtc.receive(offer, wish, bridge.events).pipe(
      Effect.catchTag("SdpRefused", (error) => Effect.fail(InvalidInput.at("/payload", error.problem))),
      Effect.catchTag(
        "WebRtcClosed",
        () => Effect.fail(away("WebRTC is not listening at the moment; try again shortly")),
      ),
      Effect.catchTag(
        "WebRtcBusy",
        () => Effect.fail(away("There are as many connections as there may be; try again later")),
      ),
    )
    id = peer.id
    if (!over) {
      sessions.set(id, { deviceUuid, peer })
      bridge.of(peer)
    }
    return { sessionId: peer.id, answer: peer.answer }
  })

  /** Invariant 3. */
  const check = Effect.gen(function*() {
    if (sessions.size === 0) return
    const known = yield* mobiles.known([...new Set(Array.from(sessions.values(), (one) => one.deviceUuid))])
    for (const { deviceUuid, peer } of sessions.values()) if (!known.has(deviceUuid)) peer.close()
  }).pipe(Effect.catchTag("DependencyUnavailable", () => Effect.void))
  yield* Effect.forkScoped(Effect.repeat(check, Schedule.spaced(checkMs)))
  yield* Effect.addFinalizer(() =>
    Effect.sync(() => {
      for (const { peer } of sessions.values()) peer.close()
    })
  )

  return MobilePublishing.of({
    open,
    trickle: (sessionId, fragment) =>
      Effect.flatMap(found(sessionId), ({ peer }) => {
        const taken = peer.trickle(fragment)
        return taken === "taken" ?
          Effect.void :
          Effect.fail(
            InvalidInput.at("/payload", taken === "mismatch" ? "ICE restarts are not offered" : "not an SDP fragment"),
          )
      }),
    close: (sessionId) =>
      Effect.map(found(sessionId), ({ peer }) => {
        peer.close()
      }),
  })
})

export const layer = Layer.effect(MobilePublishing, make)
