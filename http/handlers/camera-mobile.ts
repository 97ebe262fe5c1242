/** Handlers of the phones group. Neither a code nor a secret becomes part of a log line or an audit entry. */
import { MobileCameras, MobilePublishing } from "#actors/protocol/camera-mobile.ts"
import { WebRtc } from "#media/webrtc.ts"
import { type DeviceUuid, MobileNotFound, PublishRefused } from "#schema/camera-mobile.ts"
import { unnarrowed } from "#schema/permission.ts"
import { Effect, Redacted } from "effect"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { renderSVG } from "uqr"
import { CurrentPrincipal } from "../contract/access.ts"
import { CameraMobileGroup } from "../contract/camera-mobile.ts"
import { nightjar } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"
import { auditDetail } from "./http-audit.ts"
import { iceLinks } from "./http-ice.ts"
import { makeGuard } from "./http-resources.ts"

const whip = "/camera/api/v1/mobile/whip"
const noStore = { "cache-control": "no-store" as const }

/** On the host that the caller knows this node by, who shows it to the phone. */
const pageUrl = (host: string | undefined, secure: boolean, code: string): string => {
  const name = /^(\[[0-9a-f:.]+\]|[\w.-]+)(:\d+)?$/i.test(host ?? "") ? host : "localhost"
  return `${secure ? "https" : "http"}://${name}/phone#${code}`
}

/** RFC 6750, section 2.1. */
const bearerOf = (header: string | undefined) => {
  const token = /^Bearer +([A-Za-z0-9_-]{20,128})$/i.exec(header ?? "")?.[1]
  return token === undefined ? Effect.fail(new PublishRefused()) : Effect.succeed(Redacted.make(token))
}

export const CameraMobileHandlers = HttpApiBuilder.group(
  nightjar.add(CameraMobileGroup),
  "cameraMobile",
  Effect.fnUntraced(function*(handlers) {
    const mobiles = yield* MobileCameras
    const publishing = yield* MobilePublishing
    const { iceServers } = yield* WebRtc
    const guard = yield* makeGuard
    /** A phone is its camera; one that is none yet is there for roles that are not narrowed. */
    const phone = Effect.fnUntraced(function*(deviceUuid: DeviceUuid) {
      const status = yield* mobiles.status(deviceUuid)
      const absent = () => new MobileNotFound({ deviceUuid })
      if (status.cameraId !== null) yield* guard("camera:write", { kind: "camera", id: status.cameraId }, absent)
      else if (!unnarrowed(yield* CurrentPrincipal, "camera:write")) return yield* absent()
      return status
    })
    return handlers
      .handle(
        "prepareMobile",
        Effect.fnUntraced(function*({ payload, request }) {
          const info = yield* CurrentRequest
          const { claimCode, deviceUuid, expiresAt } = yield* mobiles.prepare(payload)
          yield* auditDetail({ name: payload.name, deviceUuid })
          const code = Redacted.value(claimCode)
          const url = pageUrl(request.headers["host"], info?.secure ?? false, code)
          const qrSvg = renderSVG(url, { border: 2 })
          const body = { deviceUuid, name: payload.name, claimCode: code, expiresAt, url, qrSvg }
          return HttpApiSchema.withHeaders({ body, headers: noStore })
        }),
      )
      .handle(
        "claimMobile",
        Effect.fnUntraced(function*({ payload }) {
          const info = yield* CurrentRequest
          const claimed = yield* mobiles.claim(Redacted.make(payload.claimCode), info?.address ?? "")
          const { cameraId, deviceUuid, name, publishSecret } = claimed
          yield* auditDetail({ deviceUuid, cameraId })
          const body = { deviceUuid, cameraId, name, publishSecret: Redacted.value(publishSecret) }
          return HttpApiSchema.withHeaders({ body, headers: noStore })
        }),
      )
      .handle("mobileStatus", ({ query }) => phone(query.deviceUuid))
      .handle(
        "unregisterMobile",
        Effect.fnUntraced(function*({ params }) {
          yield* phone(params.device_uuid)
          yield* auditDetail(yield* mobiles.unregister(params.device_uuid))
        }),
      )
      .handle(
        "publishMobile",
        Effect.fnUntraced(function*({ payload, request }) {
          const secret = yield* bearerOf(request.headers["authorization"])
          const { answer, sessionId } = yield* publishing.open(secret, payload)
          return HttpApiSchema.withHeaders({
            body: answer,
            headers: { ...noStore, location: `${whip}/${sessionId}`, ...iceLinks(iceServers) },
          })
        }),
      )
      .handle("trickleMobile", ({ params, payload }) => publishing.trickle(params.session_id, payload))
      .handle("endMobile", ({ params }) => publishing.close(params.session_id))
  }),
)
