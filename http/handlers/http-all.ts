/** Handlers of every group, as one layer. A group that is missing here stops the start with its name. */
import { Layer } from "effect"
import { AuditHandlers } from "./auth-audit.ts"
import { AuthFederationHandlers } from "./auth-federation.ts"
import { NetworkHandlers } from "./auth-network.ts"
import { SecurityHandlers } from "./auth-security.ts"
import { UsersHandlers } from "./auth-users.ts"
import { AuthHandlers } from "./auth.ts"
import { BffFederationHandlers } from "./bff-federation.ts"
import { BffLiveHandlers } from "./bff-live.ts"
import { BffTalkHandlers } from "./bff-talk.ts"
import { BffWhepHandlers } from "./bff-whep.ts"
import { CameraBackupHandlers } from "./camera-backup.ts"
import { CameraConfigHandlers } from "./camera-config.ts"
import { CameraDeviceHandlers } from "./camera-device.ts"
import { CameraJobHandlers } from "./camera-job.ts"
import { CameraLiveHandlers } from "./camera-live.ts"
import { CameraMobileHandlers } from "./camera-mobile.ts"
import { CameraOfferHandlers } from "./camera-offer.ts"
import { CameraProxyHandlers } from "./camera-proxy.ts"
import { CameraPtzHandlers } from "./camera-ptz.ts"
import { CameraTalkHandlers } from "./camera-talk.ts"
import { CameraWebRtcHandlers } from "./camera-webrtc.ts"
import { CameraHandlers } from "./camera.ts"
import { FederationDemoHandlers } from "./federation-demo.ts"
import { FederationFailoverHandlers } from "./federation-failover.ts"
import { FederationFootageHandlers } from "./federation-footage.ts"
import { ClusterMemberHandlers } from "./federation-member.ts"
import { FederationNodeHandlers } from "./federation-node.ts"
import { RecordBackHandlers } from "./federation-recordback.ts"
import { FederationRelayHandlers } from "./federation-relay.ts"
import { FederationRtspHandlers } from "./federation-rtsp.ts"
import { HealthHandlers } from "./health.ts"
import { HttpHandlers } from "./http.ts"
import { LicenseHandlers } from "./license.ts"
import { NotificationRulesHandlers } from "./notification-rules.ts"
import { NotificationHandlers } from "./notification.ts"
import { PermissionHandlers } from "./permission.ts"
import { RecordHandlers } from "./record.ts"
import { ReplayHandlers } from "./replay.ts"
import { SearchEventHandlers } from "./search-event.ts"
import { SearchHandlers } from "./search.ts"

export const AllHandlers = Layer.mergeAll(
  HealthHandlers,
  HttpHandlers,
  AuthHandlers,
  UsersHandlers,
  SecurityHandlers,
  NetworkHandlers,
  AuditHandlers,
  PermissionHandlers,
  LicenseHandlers,
  ClusterMemberHandlers,
  NotificationRulesHandlers,
  CameraHandlers,
  CameraBackupHandlers,
  CameraJobHandlers,
  CameraMobileHandlers,
  CameraProxyHandlers,
  CameraLiveHandlers,
  CameraWebRtcHandlers,
  CameraDeviceHandlers,
  CameraTalkHandlers,
  CameraPtzHandlers,
  CameraOfferHandlers,
  CameraConfigHandlers,
  RecordHandlers,
  SearchHandlers,
  ReplayHandlers,
  NotificationHandlers,
  SearchEventHandlers,
  RecordBackHandlers,
  BffFederationHandlers,
  FederationRelayHandlers,
  FederationFailoverHandlers,
  AuthFederationHandlers,
  FederationNodeHandlers,
  FederationDemoHandlers,
  BffLiveHandlers,
  FederationRtspHandlers,
  FederationFootageHandlers,
  BffWhepHandlers,
  BffTalkHandlers,
)
