/**
 * The services that handlers ask for and that come late, because they need the database: one layer, so that HTTP serves from
 * the first second. A slice adds its service here.
 */
import { AuditLog } from "#actors/protocol/auth-audit.ts"
import { SecondFactors } from "#actors/protocol/auth-factor.ts"
import { Pairings } from "#actors/protocol/auth-federation.ts"
import { ManagementIps } from "#actors/protocol/auth-network.ts"
import { Smtp } from "#actors/protocol/auth-smtp.ts"
import { Roles, Sessions, Users } from "#actors/protocol/auth-users.ts"
import { MasterKeyRenewal } from "#actors/protocol/auth-vault.ts"
import { Auth } from "#actors/protocol/auth.ts"
import { Federated, FederatedChannels } from "#actors/protocol/bff-federation.ts"
import { FederatedLives } from "#actors/protocol/bff-live.ts"
import { CameraBackups } from "#actors/protocol/camera-backup.ts"
import { CameraDevices } from "#actors/protocol/camera-device.ts"
import { CameraJobs } from "#actors/protocol/camera-job.ts"
import { MobileCameras } from "#actors/protocol/camera-mobile.ts"
import { CameraOffers } from "#actors/protocol/camera-offer.ts"
import { Serving } from "#actors/protocol/camera-serving.ts"
import { TalkBack } from "#actors/protocol/camera-talk.ts"
import { Cameras, StreamAccess } from "#actors/protocol/camera.ts"
import { EventLog } from "#actors/protocol/event.ts"
import { DemoNodes } from "#actors/protocol/federation-demo.ts"
import { Failovers } from "#actors/protocol/federation-failover.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { ClusterMembers } from "#actors/protocol/federation-member.ts"
import { FederationNodes } from "#actors/protocol/federation-node.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBackHome, RecordBackJobs } from "#actors/protocol/federation-recordback.ts"
import { Idempotency } from "#actors/protocol/http.ts"
import { lateLayer } from "#actors/protocol/late.ts"
import { License } from "#actors/protocol/license.ts"
import { PopupRules, Push } from "#actors/protocol/notification-rules.ts"
import { Notifications } from "#actors/protocol/notification.ts"
import { Permissions, ResourceGroups, Resources } from "#actors/protocol/permission.ts"
import { IndexRebuilds, Recordings } from "#actors/protocol/record.ts"
import { Replays } from "#actors/protocol/replay.ts"
import { Search } from "#actors/protocol/search.ts"
import { Layer } from "effect"

export const LateServices = Layer.mergeAll(
  lateLayer(Auth),
  lateLayer(AuditLog),
  lateLayer(Users),
  lateLayer(Roles),
  lateLayer(Sessions),
  lateLayer(EventLog),
  lateLayer(Notifications),
  lateLayer(ManagementIps),
  lateLayer(Smtp),
  lateLayer(SecondFactors),
  lateLayer(MasterKeyRenewal),
  lateLayer(Idempotency),
  lateLayer(License),
  lateLayer(PopupRules),
  lateLayer(Push),
  lateLayer(Cameras),
  lateLayer(CameraDevices),
  lateLayer(CameraOffers),
  lateLayer(TalkBack),
  lateLayer(CameraBackups),
  lateLayer(CameraJobs),
  lateLayer(MobileCameras),
  lateLayer(StreamAccess),
  lateLayer(Recordings),
  lateLayer(IndexRebuilds),
  lateLayer(Search),
  lateLayer(Replays),
  lateLayer(Peers),
  lateLayer(Serving),
  lateLayer(RecordBackHome),
  lateLayer(RecordBackJobs),
  lateLayer(ClusterMembers),
  lateLayer(FederatedChannels),
  lateLayer(Federated),
  lateLayer(Pairings),
  lateLayer(FederationNodes),
  lateLayer(Permissions),
  lateLayer(ResourceGroups),
  lateLayer(Resources),
  lateLayer(Failovers),
  lateLayer(FailoverJournals),
  lateLayer(DemoNodes),
  lateLayer(FederatedLives),
)
