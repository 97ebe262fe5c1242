/**
 * The whole HTTP interface: one Api of all groups. Client-safe: the dashboard and the CLI make typed clients from it.
 *
 * Invariants
 * 1. Every group has one line here and one handlers file of the same name in `http/handlers`.
 * 2. The id is that of `nightjar`, the root that handlers are written against.
 */
import { OpenApi } from "effect/http-api"
import { AuditGroup } from "./auth-audit.ts"
import { AuthFederationGroup } from "./auth-federation.ts"
import { NetworkGroup } from "./auth-network.ts"
import { SecurityGroup } from "./auth-security.ts"
import { UsersGroup } from "./auth-users.ts"
import { AuthGroup } from "./auth.ts"
import { BffFederationGroup } from "./bff-federation.ts"
import { BffLiveGroup } from "./bff-live.ts"
import { BffTalkGroup } from "./bff-talk.ts"
import { BffWhepGroup } from "./bff-whep.ts"
import { CameraBackupGroup } from "./camera-backup.ts"
import { CameraConfigGroup } from "./camera-config.ts"
import { CameraDeviceGroup } from "./camera-device.ts"
import { CameraJobGroup } from "./camera-job.ts"
import { CameraLiveGroup } from "./camera-live.ts"
import { CameraMobileGroup } from "./camera-mobile.ts"
import { CameraOfferGroup } from "./camera-offer.ts"
import { CameraProxyGroup } from "./camera-proxy.ts"
import { CameraPtzGroup } from "./camera-ptz.ts"
import { CameraTalkGroup } from "./camera-talk.ts"
import { CameraWebRtcGroup } from "./camera-webrtc.ts"
import { CameraGroup } from "./camera.ts"
import { nightjar } from "./conventions.ts"
import { FederationDemoGroup } from "./federation-demo.ts"
import { FederationFailoverGroup } from "./federation-failover.ts"
import { FederationFootageGroup } from "./federation-footage.ts"
import { ClusterMemberGroup } from "./federation-member.ts"
import { FederationNodeGroup } from "./federation-node.ts"
import { RecordBackGroup } from "./federation-recordback.ts"
import { FederationRelayGroup } from "./federation-relay.ts"
import { FederationRtspGroup } from "./federation-rtsp.ts"
import { HealthGroup } from "./health.ts"
import { describe } from "./http-openapi.ts"
import { HttpGroup } from "./http.ts"
import { LicenseGroup } from "./license.ts"
import { NotificationRulesGroup } from "./notification-rules.ts"
import { NotificationGroup } from "./notification.ts"
import { PermissionGroup } from "./permission.ts"
import { RecordGroup } from "./record.ts"
import { ReplayGroup } from "./replay.ts"
import { SearchEventGroup } from "./search-event.ts"
import { SearchGroup } from "./search.ts"

const groups = nightjar
  .add(HealthGroup)
  .add(HttpGroup)
  .add(AuthGroup)
  .add(UsersGroup)
  .add(SecurityGroup)
  .add(NetworkGroup)
  .add(AuditGroup)
  .add(PermissionGroup)
  .add(LicenseGroup)
  .add(ClusterMemberGroup)
  .add(NotificationRulesGroup)
  .add(CameraGroup)
  .add(CameraBackupGroup)
  .add(CameraJobGroup)
  .add(CameraMobileGroup)
  .add(CameraProxyGroup)
  .add(CameraLiveGroup)
  .add(CameraWebRtcGroup)
  .add(CameraDeviceGroup)
  .add(CameraTalkGroup)
  .add(CameraPtzGroup)
  .add(CameraOfferGroup)
  .add(CameraConfigGroup)
  .add(RecordGroup)
  .add(SearchGroup)
  .add(ReplayGroup)
  .add(NotificationGroup)
  .add(SearchEventGroup)
  .add(RecordBackGroup)
  .add(BffFederationGroup)
  .add(FederationRelayGroup)
  .add(FederationFailoverGroup)
  .add(AuthFederationGroup)
  .add(FederationNodeGroup)
  .add(FederationDemoGroup)
  .add(BffLiveGroup)
  .add(FederationRtspGroup)
  .add(FederationFootageGroup)
  .add(BffWhepGroup)
  .add(BffTalkGroup)

export class Api extends groups.annotateMerge(OpenApi.annotations({
  title: "Nightjar",
  version: "1",
  description:
    "A network video recorder cluster. Operations marked `x-nightjar-extension` go beyond the common contract.",
  transform: describe(groups),
})) {}
