/** Phones as cameras: prepared, claimed, published by WHIP (RFC 9725), unregistered. */
import {
  ClaimCodeInvalid,
  DeviceUuid,
  MobileClaim,
  MobileClaimed,
  MobileNotFound,
  MobilePrepare,
  MobileStatus,
  MobileTicket,
  PublishingEnded,
  PublishingPaused,
  PublishRefused,
} from "#schema/camera-mobile.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { LicenseRestricted } from "#schema/license.ts"
import { InvalidInput, TooManyRequests } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, extension, idempotencyKey } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1/cameras/mobile"
const whip = "/camera/api/v1/mobile/whip"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

/** Longest SDP that is looked at. */
export const maxSdpLength = 64 * 1024
const sdp = (contentType: string) =>
  Schema.String.check(Schema.isMaxLength(maxSdpLength)).pipe(HttpApiSchema.asText({ contentType }))
const session = { session_id: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{16,64}$/)) }
/** A secret is in the answer: nothing keeps it. */
const told = { "cache-control": Schema.Literal("no-store") }

const registering = [
  HttpApiEndpoint.post("prepareMobile", `${base}/prepare`, {
    headers: idempotencyKey,
    payload: MobilePrepare,
    success: HttpApiSchema.WithHeaders(MobileTicket.annotate({ httpApiStatus: 201 }), told),
    error: problems(TooManyRequests),
  }).annotateMerge(access("camera:write", { on: "everything" })).annotateMerge(
    doc(
      "Prepare mobile camera registration",
      "A claim code for one phone, good once, for a quarter of an hour, with the address of the phone's page and a QR code of it. " +
        "At most 200 wait at a time.",
    ),
  ),
  HttpApiEndpoint.post("claimMobile", `${base}/claim`, {
    payload: MobileClaim,
    success: HttpApiSchema.WithHeaders(MobileClaimed.annotate({ httpApiStatus: 201 }), told),
    error: problems(ClaimCodeInvalid, ControlElsewhere, LicenseRestricted, TooManyRequests),
  }).annotateMerge(access("public")).annotateMerge(
    doc(
      "Claim a mobile camera",
      "The code becomes a camera and a secret to publish with, which is told this once. Wrong codes are counted for the caller's " +
        "address: after ten within ten minutes it waits (429).",
    ),
  ),
  HttpApiEndpoint.get("mobileStatus", `${base}/status`, {
    query: { deviceUuid: DeviceUuid },
    success: MobileStatus,
    error: problems(MobileNotFound),
  }).annotateMerge(access("camera:write", { on: "handler" })).annotateMerge(
    doc(
      "Check mobile camera registration status",
      "Whether the code waits, has expired or became a camera, and whether it sends. A role that is narrowed to resource groups is told " +
        "of phones whose camera it reaches.",
    ),
  ),
  HttpApiEndpoint.delete("unregisterMobile", `${base}/:device_uuid`, {
    params: { device_uuid: DeviceUuid },
    success: HttpApiSchema.NoContent,
    error: problems(ControlElsewhere, MobileNotFound),
  }).annotateMerge(access("camera:write", { on: "handler" })).annotateMerge(
    doc(
      "Unregister a mobile camera",
      "Publishing ends at once and the phone's secret is worth nothing any more. A camera without recordings goes too; one that is " +
        "recorded stays with its recordings until these are deleted.",
    ),
  ),
] as const

/** The Bearer token of WHIP is the phone's publish secret, which the handler checks; paths of sessions cannot be guessed. */
const publishing = [
  HttpApiEndpoint.post("publishMobile", whip, {
    payload: sdp("application/sdp"),
    success: HttpApiSchema.WithHeaders(sdp("application/sdp").annotate({ httpApiStatus: 201 }), {
      location: Schema.String,
      link: Schema.optionalKey(Schema.String),
      "cache-control": Schema.Literal("no-store"),
    }),
    error: problems(InvalidInput, PublishingPaused, PublishRefused),
  }).annotateMerge(access("public")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Publish from a phone",
      "WHIP (RFC 9725): `Authorization: Bearer` with the publish secret, an SDP offer in, 201 with the answer, the session's " +
        "`Location` and a `Link` for each ICE server. H.264 and, where offered, Opus are taken. A newer session of the same phone replaces the one before. 422 where " +
        "the offer has no H.264.",
    ),
  ),
  HttpApiEndpoint.patch("trickleMobile", `${whip}/:session_id`, {
    params: session,
    payload: sdp("application/trickle-ice-sdpfrag"),
    success: HttpApiSchema.NoContent,
    error: problems(InvalidInput, PublishingEnded),
  }).annotateMerge(access("capability")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("Tell candidates of a phone", "RFC 8840. The answer is whole: nothing here is needed to connect."),
  ),
  HttpApiEndpoint.delete("endMobile", `${whip}/:session_id`, {
    params: session,
    success: HttpApiSchema.NoContent,
    error: problems(PublishingEnded),
  }).annotateMerge(access("capability")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("End publishing", "The session ends; the phone may publish again."),
  ),
] as const

export class CameraMobileGroup extends HttpApiGroup.make("cameraMobile")
  .add(...registering)
  .add(...publishing)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Phones", description: "Phones as cameras." }))
{}
