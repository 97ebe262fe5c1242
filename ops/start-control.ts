/**
 * The part of a node that needs the database: actors and services over SQL, and other nodes (`start.ts` has the rest).
 *
 * Invariant
 * 1. The random password of the first start is printed once, to the terminal, never to the log's JSON.
 */
import * as AuditWatch from "#actors/behaviour/auth-audit-watch.ts"
import { auditLogLayer } from "#actors/behaviour/auth-audit.ts"
import { secondFactorsLayer } from "#actors/behaviour/auth-factor.ts"
import { pairingsLayer } from "#actors/behaviour/auth-federation-pairing.ts"
import { upkeepLayer } from "#actors/behaviour/auth-federation-upkeep.ts"
import { peerRegistryLayer } from "#actors/behaviour/auth-federation.ts"
import * as AuthGrants from "#actors/behaviour/auth-grants.ts"
import { managementIpsLayer } from "#actors/behaviour/auth-network.ts"
import { passwordsLayer } from "#actors/behaviour/auth-passwords.ts"
import * as AuthPresence from "#actors/behaviour/auth-presence.ts"
import * as AuthRoles from "#actors/behaviour/auth-roles.ts"
import * as AuthSessions from "#actors/behaviour/auth-sessions.ts"
import { smtpLayer } from "#actors/behaviour/auth-smtp.ts"
import { trustLayer } from "#actors/behaviour/auth-trust.ts"
import * as AuthUsers from "#actors/behaviour/auth-users.ts"
import { masterKeyLayer } from "#actors/behaviour/auth-vault.ts"
import { authLayer } from "#actors/behaviour/auth.ts"
import * as FederatedChannels from "#actors/behaviour/bff-channels.ts"
import * as FederatedBehaviour from "#actors/behaviour/bff-federation.ts"
import * as FederatedLive from "#actors/behaviour/bff-live.ts"
import * as FederatedChannelMapping from "#actors/behaviour/bff-mapping.ts"
import * as CameraAccess from "#actors/behaviour/camera-access.ts"
import * as CameraActivation from "#actors/behaviour/camera-activation.ts"
import * as CameraBackup from "#actors/behaviour/camera-backup.ts"
import * as CameraBundling from "#actors/behaviour/camera-bundle.ts"
import * as CameraDevice from "#actors/behaviour/camera-device.ts"
import * as CameraEntity from "#actors/behaviour/camera-entity.ts"
import * as CameraEvents from "#actors/behaviour/camera-event.ts"
import * as CameraJob from "#actors/behaviour/camera-job.ts"
import * as CameraMobile from "#actors/behaviour/camera-mobile.ts"
import * as CameraOffers from "#actors/behaviour/camera-offer.ts"
import * as CameraRecovery from "#actors/behaviour/camera-recovery.ts"
import * as CameraServing from "#actors/behaviour/camera-serving.ts"
import * as CameraStates from "#actors/behaviour/camera-status.ts"
import * as CameraTalkLease from "#actors/behaviour/camera-talk-lease.ts"
import * as CameraTalk from "#actors/behaviour/camera-talk.ts"
import * as CameraBehaviour from "#actors/behaviour/camera.ts"
import * as EventLogs from "#actors/behaviour/event-log.ts"
import * as EventNotifications from "#actors/behaviour/event-notification.ts"
import * as EventSources from "#actors/behaviour/event-source.ts"
import * as FailoverControl from "#actors/behaviour/federation-control.ts"
import * as DemoNodes from "#actors/behaviour/federation-demo.ts"
import * as Failover from "#actors/behaviour/federation-failover.ts"
import * as FailoverJournaling from "#actors/behaviour/federation-journal.ts"
import { clusterMembersLayer } from "#actors/behaviour/federation-member.ts"
import * as FederationNodes from "#actors/behaviour/federation-node.ts"
import * as FederationPeers from "#actors/behaviour/federation-peer.ts"
import * as RecordBackHomes from "#actors/behaviour/federation-recordback-home.ts"
import * as RecordBackBehaviour from "#actors/behaviour/federation-recordback.ts"
import { idempotencyLayer } from "#actors/behaviour/http.ts"
import * as LicenseKnown from "#actors/behaviour/license-known.ts"
import * as LicenseBehaviour from "#actors/behaviour/license.ts"
import * as PopupEvaluator from "#actors/behaviour/notification-evaluator.ts"
import * as PushBehaviour from "#actors/behaviour/notification-push.ts"
import * as PopupRules from "#actors/behaviour/notification-rules.ts"
import * as PopupSender from "#actors/behaviour/notification-sender.ts"
import * as PopupSnapshots from "#actors/behaviour/notification-snapshot.ts"
import * as PermissionGroups from "#actors/behaviour/permission-groups.ts"
import * as RoleReaches from "#actors/behaviour/permission-reach.ts"
import * as PermissionResources from "#actors/behaviour/permission-resources.ts"
import * as PermissionBehaviour from "#actors/behaviour/permission.ts"
import * as RecordBundling from "#actors/behaviour/record-bundle.ts"
import * as RecordEntity from "#actors/behaviour/record-entity.ts"
import * as RecordIndex from "#actors/behaviour/record-index.ts"
import * as RecordLedgerBehaviour from "#actors/behaviour/record-ledger.ts"
import * as RecordPlans from "#actors/behaviour/record-plan.ts"
import * as RecordPurge from "#actors/behaviour/record-purge.ts"
import * as RecordStates from "#actors/behaviour/record-status.ts"
import * as RecordBehaviour from "#actors/behaviour/record.ts"
import * as ReplayEntity from "#actors/behaviour/replay-entity.ts"
import * as ReplayBehaviour from "#actors/behaviour/replay.ts"
import * as SearchBehaviour from "#actors/behaviour/search.ts"
import { CaptureHolds } from "#actors/protocol/federation-hold.ts"
import { FederatedChannelStore } from "#actors/store/bff-federation.ts"
import { CameraBundleStore } from "#actors/store/camera-bundle.ts"
import { CameraJobStore } from "#actors/store/camera-job.ts"
import { CameraMobileStore } from "#actors/store/camera-mobile.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { EventReaderStore } from "#actors/store/event-reader.ts"
import { EventStore } from "#actors/store/event.ts"
import { ControlStore } from "#actors/store/federation-control.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { FailoverJournalStore } from "#actors/store/federation-journal.ts"
import { RecordBackHomeStore } from "#actors/store/federation-recordback-home.ts"
import { RecordBackStore } from "#actors/store/federation-recordback.ts"
import { RecordBundleStore } from "#actors/store/record-bundle.ts"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordRebuildStore } from "#actors/store/record-rebuild.ts"
import { RecordStore } from "#actors/store/record.ts"
import { ReplayStore } from "#actors/store/replay.ts"
import * as Bus from "#cluster/bus.ts"
import * as Discovery from "#cluster/discovery.ts"
import { sealedIdentity } from "#cluster/identity.ts"
import { sealedKeyring } from "#cluster/keyring.ts"
import type { OwnReach } from "#cluster/members.ts"
import { PlainNetworks } from "#cluster/peer-link.ts"
import * as Backchannel from "#media/backchannel/live.ts"
import { DeviceDrivers } from "#media/device.ts"
import * as OnvifDiscovery from "#media/drivers/onvif-discovery.ts"
import { deviceDrivers, drivers } from "#media/drivers/registry.ts"
import * as Hls from "#media/hls/live.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { SourceDrivers } from "#media/source.ts"
import { networkOf } from "#schema/auth-network.ts"
import { ownVault, Vault } from "#schema/vault.ts"
import { Console, Effect, Layer, Redacted } from "effect"
import type { Settings } from "./config.ts"
import * as Hardware from "./host/hardware.ts"
import { version } from "./version.ts"

/** As long as players keep pictures in advance. */
const footageKeptMs = 30_000

const firstStart = (made: { readonly username: string; readonly password: Redacted.Redacted | null }) =>
  made.password === null ?
    Effect.void :
    Console.log(`\nFirst start: user ${made.username}, password ${Redacted.value(made.password)} (shown this once)\n`)

/** What a renewal of the master key seals anew besides the database: the node's own files, by its own vault. */
const sealedFiles = (settings: Settings) =>
  Effect.gen(function*() {
    const own = yield* ownVault
    const identity = yield* Effect.provideService(sealedIdentity(settings.dataDir), Vault, own)
    const { secrets } = yield* RecorderSupervisor
    return { files: [identity, secrets, yield* sealedKeyring(settings.dataDir, own)] }
  })

/** Other nodes: whom this one knows, pairs with, and asks. */
const federation = (settings: Settings, reach: OwnReach) => {
  const self = { name: settings.nodeName, version, reach }
  const discovery = settings.discovery === "off" ?
    Discovery.NodeDiscovery.off :
    Discovery.layer({ ...self, lans: Discovery.lansOf(settings.httpHost) })
  return Layer.mergeAll(upkeepLayer(self), FederationNodes.layer(self), pairingsLayer(self)).pipe(
    Layer.provide(discovery),
    Layer.provideMerge(Layer.mergeAll(FederationPeers.layer, FederationNodes.livenessLayer)),
    Layer.provide(Layer.succeed(PlainNetworks, settings.plainHttp.map((text) => networkOf(text)!))),
  )
}

/** Hints and signs of life between the members of a cluster; without a port there is none. */
const busOf = ({ busPort: port, clusterHost: host }: Settings) => port === 0 ? Layer.empty : Bus.layer({ host, port })

/** (c) actors and services over SQL. */
export const control = (settings: Settings, reach: OwnReach) => {
  const stores = Layer.mergeAll(
    Layer.succeed(DeviceDrivers, deviceDrivers),
    Layer.succeed(SourceDrivers, drivers),
    CaptureHolds.layer,
    ControlStore.layer,
    FailoverStore.layer,
    FailoverJournalStore.layer,
    CameraBundleStore.layer,
    RecordBundleStore.layer,
    CameraStore.layer,
    CameraMobileStore.layer,
    CameraJobStore.layer,
    FederatedChannelStore.layer,
    RecordStore.layer,
    RecordLedgerStore.layer,
    RecordRebuildStore.layer,
    ReplayStore.layer,
    EventStore.layer,
    EventReaderStore.layer,
    RecordBackStore.layer,
    RecordBackHomeStore.layer,
  )
  const license = { keys: settings.licenseKeys, server: settings.licenseServer, dataFolder: settings.dataDir }
  const background = Layer.mergeAll(
    EventSources.stopping(settings.nodeName),
    CameraEntity.layer,
    CameraDevice.entityLayer({ holdMs: settings.ptzHoldSeconds * 1000 }),
    CameraTalkLease.entityLayer,
    RecordEntity.layer,
    ReplayEntity.layer,
    CameraActivation.layer,
    CameraEvents.layer({ toldPath: `${settings.dataDir}/camera-told.json` }),
    CameraStates.layer,
    RecordStates.layer,
    RecordPurge.layer,
    AuditWatch.layer,
  )
  const permissions = Layer.mergeAll(PermissionBehaviour.layer, PermissionGroups.layer).pipe(
    Layer.provide(AuthGrants.layer),
    Layer.provideMerge(PermissionResources.layer.pipe(Layer.provideMerge(FederatedChannels.layer))),
  )
  const federated = FederatedBehaviour.layer.pipe(Layer.provide([FederatedChannelMapping.layer, Hls.layer]))
  const popups = Layer.mergeAll(PopupEvaluator.layer, PopupRules.layer).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        PopupSender.layer({ pushNetwork: "internet", pushContact: settings.pushContact }),
        PushBehaviour.layer({ insecure: false }),
      ),
    ),
    Layer.provide([AuthGrants.layer, PopupSnapshots.layer]),
  )
  const recordBack = Layer.mergeAll(
    RecordBackBehaviour.layer({ rate: Effect.succeed(settings.recordBackMiB << 20), keptMs: footageKeptMs }),
    RecordBackHomes.layer,
  )
  const failover = Failover.layer({ dataFolder: settings.dataDir, name: settings.nodeName, version }).pipe(
    Layer.provideMerge(FailoverJournaling.layer({ name: settings.nodeName })),
    Layer.provideMerge(Layer.mergeAll(CameraBundling.layer, RecordBundling.layer, recordBack)),
  )
  const demo = DemoNodes.layer({ door: settings.demoDoor })
  const services = Layer.mergeAll(popups, federated, FederatedLive.layer, failover, demo).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        CameraAccess.layer,
        CameraServing.layer,
        CameraMobile.layer,
        CameraJob.layer,
        CameraOffers.layer,
        CameraTalk.layer.pipe(Layer.provide(Backchannel.layer)),
        permissions,
      ),
    ),
    Layer.provideMerge(Layer.mergeAll(SearchBehaviour.layer, ReplayBehaviour.layer, LicenseBehaviour.layer(license))),
    Layer.provideMerge(RecordBehaviour.layer),
    Layer.provideMerge(
      Layer.mergeAll(
        CameraBehaviour.layer,
        CameraBackup.layer,
        CameraDevice.layer.pipe(Layer.provide(OnvifDiscovery.layer)),
      ),
    ),
    Layer.provideMerge(RecordIndex.layer),
    Layer.provideMerge(Layer.mergeAll(RecordPlans.layer, RecordLedgerBehaviour.layer)),
    Layer.provideMerge(CameraRecovery.layer),
    Layer.provideMerge(EventNotifications.layer),
    Layer.provideMerge(EventLogs.layer({
      ...EventLogs.defaultLog,
      retention: { days: settings.eventDays, count: settings.eventCount },
    })),
  )
  return background.pipe(
    Layer.provideMerge(services),
    Layer.provideMerge(FailoverControl.layer),
    Layer.provideMerge(stores),
    Layer.provideMerge(
      Layer.mergeAll(
        authLayer({ adminPassword: settings.adminPassword, onFirstStart: firstStart }),
        AuthSessions.layer,
        AuthRoles.layer.pipe(Layer.provideMerge(AuthUsers.layer)),
        idempotencyLayer,
        auditLogLayer({ headsPath: `${settings.dataDir}/audit-heads.jsonl` }),
        managementIpsLayer,
        smtpLayer,
        secondFactorsLayer,
        masterKeyLayer(sealedFiles(settings)),
        clusterMembersLayer,
        federation(settings, reach),
      ),
    ),
    Layer.provideMerge(peerRegistryLayer),
    Layer.provideMerge(
      Layer.mergeAll(
        trustLayer(),
        passwordsLayer,
        RoleReaches.layer,
        AuthPresence.layer,
        LicenseKnown.layer(license).pipe(Layer.provide(Hardware.layer)),
      ),
    ),
    Layer.provide(busOf(settings)),
  )
}
