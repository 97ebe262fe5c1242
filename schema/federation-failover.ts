/**
 * Words of failover as people and other nodes see it: settings, protections, reroutes, what a guardian would need, what is blocked.
 *
 * Invariants
 * 1. Effective settings are complete; for each it is told whether it is a default or was set.
 * 2. A reroute begins with the takeover and ends with the last receipt of its record-back.
 */
import { Schema, Struct } from "effect"
import { ChannelId, EpochMs, Instant, NodeId, Uuid7 } from "./common.ts"
import { mostVoters, mostWitnesses } from "./federation-control.ts"
import { defaultSettings, Turn } from "./federation-protection.ts"
import {
  CapacityNeed,
  NodeCapacity,
  ProtectionClass,
  ProtectionState,
  RecordBackProgress,
  RecordBackState,
} from "./federation.ts"

export const ProtectionId = Uuid7.pipe(Schema.brand("ProtectionId"))
export type ProtectionId = typeof ProtectionId.Type
export const RerouteId = Uuid7.pipe(Schema.brand("RerouteId"))
export type RerouteId = typeof RerouteId.Type

const between = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const Milliseconds = between(100, 3_600_000)

/** Minutes since midnight, local time of the node, half-open; an end before the start lies on the next day. */
export const DailyWindow = Schema.Struct({ startMinute: between(0, 1_439), endMinute: between(0, 1_440) })

/** As many as a cluster may have members. */
const mostExceptions = 64

/** What is set of failover on this node: as the guardian of others and as a home node. */
export const FailoverSettings = Schema.Struct({
  /** Between two heartbeats that this node asks of each other one. */
  heartbeatMs: between(100, 60_000),
  suspectMs: Milliseconds,
  deadMs: Milliseconds,
  askMs: Milliseconds,
  rankWaitMs: Milliseconds,
  retryMs: Milliseconds,
  /** Unbroken presence of the home node before it gets its service back by itself. */
  stableMs: between(0, 86_400_000),
  /** Both nodes record for this long at a failback; 0: for two groups of pictures, of the camera whose groups are longest. */
  overlapMs: between(0, 120_000),
  /** How long a drill serves. */
  drillMs: between(1_000, 3_600_000),
  failbackAutomatic: Schema.Boolean,
  /** Automatic failback happens within it only; null: at any time. */
  failbackWindow: Schema.NullOr(DailyWindow),
  /** Whatever a home node says, its configuration is fetched anew after this. */
  snapshotMinutes: between(1, 1_440),
  /** How long an outage this node keeps disk space for. */
  expectedOutageHours: between(1, 720),
  /** Most that leaves this node for footage on its way home, MiB a second, also for what is under way; 0: as its configuration says. */
  recordBackMiB: between(0, 1_023),
  /** What this node can take on in all, its own cameras included. */
  maxCameras: between(1, 10_000),
  maxIngestBps: between(1_000_000, 100_000_000_000),
  maxDiskBytesPerSecond: between(1_000_000, 100_000_000_000),
  /** Memory for what is held of shadowed cameras, all together. */
  maxShadowMemoryBytes: between(16_777_216, 1_099_511_627_776),
  /** Paired nodes that vote about control of this one's cameras besides its guardians; they guard nothing. */
  witnesses: Schema.Array(NodeId).check(Schema.isMaxLength(mostWitnesses), Schema.isUnique()),
  /** Members of a cluster guard each other by themselves; of two members, where it is so on both. */
  guardMembers: Schema.Boolean,
  /** How other members guard this one by themselves. */
  memberClass: Schema.Literals(["warm", "shadow"]),
  /** How many do, those that people chose among them. */
  memberGuardians: between(1, 7),
  /** Members that this one does not guard by itself. */
  membersNotGuarded: Schema.Array(NodeId).check(Schema.isMaxLength(mostExceptions), Schema.isUnique()),
}).annotate({ identifier: "FailoverSettings" })
export type FailoverSettings = typeof FailoverSettings.Type

export const defaultFailoverSettings: FailoverSettings = {
  ...defaultSettings,
  overlapMs: 0,
  heartbeatMs: 500,
  failbackWindow: null,
  snapshotMinutes: 15,
  expectedOutageHours: 24,
  recordBackMiB: 0,
  maxCameras: 64,
  maxIngestBps: 400_000_000,
  maxDiskBytesPerSecond: 60_000_000,
  maxShadowMemoryBytes: 536_870_912,
  witnesses: [],
  guardMembers: true,
  memberClass: "warm",
  memberGuardians: 2,
  membersNotGuarded: [],
}

/** A whole object; what is left out goes back to its default. */
export const FailoverSettingsUpdate = FailoverSettings.mapFields(Struct.map(Schema.optionalKey))
export type FailoverSettingsUpdate = typeof FailoverSettingsUpdate.Type

const SettingSource = Schema.Literals(["default", "set"])

export const EffectiveFailoverSettings = Schema.Struct({
  settings: FailoverSettings,
  sources: Schema.Record(Schema.String, SettingSource),
  version: Schema.Int,
}).annotate({ identifier: "EffectiveFailoverSettings" })
export type EffectiveFailoverSettings = typeof EffectiveFailoverSettings.Type

export const ProtectionCreate = Schema.Struct({
  nodeId: NodeId,
  automatic: Schema.Boolean,
  class: ProtectionClass,
  /** Whose turn it is among several guardians of that node; 0 is the first. */
  rank: Schema.optionalKey(between(0, 7)),
})
export type ProtectionCreate = typeof ProtectionCreate.Type

/** A camera that this node tried to open beside the home node's own session. */
export const SessionTrial = Schema.Struct({
  channelId: ChannelId,
  cameraName: Schema.String,
  outcome: Schema.Literals(["accepted", "refused", "unreachable"]),
  detail: Schema.String,
})
export type SessionTrial = typeof SessionTrial.Type

/** What is held in memory of a home node's cameras, so that footage is not interrupted when it fails. */
export const ShadowView = Schema.Struct({
  /** Streams that are recorded there and are not served here now. */
  streams: Schema.Int,
  /** Those of which all that is promised is held. */
  ready: Schema.Int,
  /** What is promised, milliseconds. */
  holdMs: Schema.Int,
  /** Of the stream of which least is held. */
  leastMs: Schema.Int,
  /** Memory in use. */
  bytes: Schema.Int,
  /** Cameras that do not come, a line each. */
  troubles: Schema.Array(Schema.Struct({ cameraName: Schema.String, reason: Schema.String })),
})
export type ShadowView = typeof ShadowView.Type

export const Snapshot = Schema.Struct({
  /** Null: none was given yet. */
  digest: Schema.NullOr(Schema.String),
  /** When the home node made it. */
  madeAt: Schema.NullOr(Instant),
  ageMs: Schema.NullOr(Schema.Int),
  /** The home node has another configuration by now. */
  stale: Schema.Boolean,
  cameras: Schema.Int,
  recordings: Schema.Int,
  sizeBytes: Schema.Int,
})

/**
 * Where a protection comes from. `default`: members guard each other; its class is then the home node's `memberClass`, and its rank follows
 * from capacity and the order of nodes. `set`: by a person, here or in the home node's settings.
 */
export const ProtectionSources = Schema.Struct({
  protection: Schema.Literals(["default", "set"]),
  class: Schema.Literals(["default", "set"]),
  rank: Schema.Literals(["computed", "set"]),
})
export type ProtectionSources = typeof ProtectionSources.Type
export const setByPerson: ProtectionSources = { protection: "set", class: "set", rank: "set" }

/** A relation of this node, as guardian, to a home node. */
export const ProtectionView = Schema.Struct({
  id: ProtectionId,
  nodeId: NodeId,
  name: Schema.String,
  state: ProtectionState,
  since: Instant,
  /** Why something failed last, for a person; empty while all is well. */
  reason: Schema.String,
  class: ProtectionClass,
  automatic: Schema.Boolean,
  rank: Schema.Int,
  sources: ProtectionSources,
  /** Highest number known of the home node's slot. */
  epoch: Schema.Int,
  /** Since the last heartbeat; null: none since this node started. */
  silenceMs: Schema.NullOr(Schema.Int),
  /** This node may move cameras and change what is theirs. */
  control: Schema.Boolean,
  snapshot: Snapshot,
  need: CapacityNeed,
  /** What would not fit, a line each. */
  short: Schema.Array(Schema.String),
  sessions: Schema.Array(SessionTrial),
  /** Changes of its cameras that were made here and that the home node does not have yet; null: not known at the moment. */
  changes: Schema.NullOr(Schema.Int),
  /** How often in a row the home node did not take its cameras back; `reason` tells why. */
  refusals: Schema.Int,
  /** Null: nothing is held, because of its class or because its cameras are not known here. */
  shadow: Schema.NullOr(ShadowView),
  drill: Schema.NullOr(Schema.Struct({ at: Instant, gapMs: Schema.NullOr(Schema.Int), channels: Schema.Int })),
  createdAt: Instant,
  version: Schema.Int,
}).annotate({ identifier: "FailoverProtection" })
export type ProtectionView = typeof ProtectionView.Type

export const RerouteState = Schema.Literals(["takingOver", "serving", "failingBack", "recordingBack", "done"])
export type RerouteState = typeof RerouteState.Type

export const Reroute = Schema.Struct({
  id: RerouteId,
  homeNodeId: NodeId,
  servingNodeId: NodeId,
  channels: Schema.Array(ChannelId),
  epoch: Schema.Int,
  state: RerouteState,
  since: Instant,
  endedAt: Schema.NullOr(Instant),
  /** From the last sign of the home node to the first key frame stored here, of the channel that waited longest; null: not yet. */
  gapMs: Schema.NullOr(Schema.Int),
  gaps: Schema.Array(Schema.Struct({ channelId: ChannelId, gapMs: Schema.NullOr(Schema.Int) })),
  /** Why it does not end: a failback that the home node refused `refusals` times in a row, or changes that wait for it. */
  held: Schema.NullOr(Schema.Struct({ refusals: Schema.Int, reason: Schema.String })),
  drill: Schema.Boolean,
  recordBack: Schema.Struct({
    state: RecordBackState,
    segmentsDone: Schema.Int,
    segmentsTotal: Schema.Int,
    bytesDone: Schema.Int,
    bytesTotal: Schema.Int,
    rateBps: RecordBackProgress.fields.rateBps,
    estimatedEnd: RecordBackProgress.fields.estimatedEnd,
    reason: Schema.String,
  }),
}).annotate({ identifier: "Reroute" })
export type Reroute = typeof Reroute.Type

/** What may not be done while another node serves. */
export const blockedOperations = [
  "recording_deletion",
  "camera_deletion",
  "camera_factory_reset",
  "license_release",
] as const
export const BlockedOperation = Schema.Literals(blockedOperations)

/** What whoever has no control refuses, besides what is blocked during a reroute. */
const controlledOperations = ["device_command", "configuration_change"] as const

/** Who controls the cameras of a home node, as this node knows. */
export const ControlView = Schema.Struct({
  homeNodeId: NodeId,
  /** Null: nobody, or nobody knows. */
  holder: Schema.NullOr(NodeId),
  /** When its lease runs out unless it is renewed; null: it does not run out, or another node has it. */
  until: Schema.NullOr(Instant),
  /** With which this node serves it. */
  epoch: Schema.Int,
  /** Who votes about it: the home node, its guardians, witnesses. */
  voters: Schema.Array(NodeId).check(Schema.isMaxLength(mostVoters)),
  /** What is refused here now. */
  refused: Schema.Array(Schema.Literals([...controlledOperations, ...blockedOperations])),
}).annotate({ identifier: "FailoverControl" })
export type ControlView = typeof ControlView.Type

export const refusedOperations = (control: boolean, rerouted: boolean): ControlView["refused"] => [
  ...(control ? [] : controlledOperations),
  ...(control && !rerouted ? [] : blockedOperations),
]

export const FailoverStatus = Schema.Struct({
  /** For a badge: `attention` where something is not ready, `serving` where a takeover is under way here or of this node. */
  badge: Schema.Literals(["none", "ready", "attention", "serving"]),
  /** Home nodes that this node serves. */
  serving: Schema.Array(
    Schema.Struct({ nodeId: NodeId, name: Schema.String, epoch: Schema.Int, control: Schema.Boolean }),
  ),
  /** Another node serves this one's cameras; null: none does, or this cannot be known. */
  servedBy: Schema.NullOr(Schema.Struct({ nodeId: NodeId, epoch: Schema.Int, control: Schema.Boolean })),
  blocked: Schema.Array(BlockedOperation),
  /** Of this node's configuration, changed on both nodes during a takeover, that nobody has decided; null: not known at the moment. */
  conflicts: Schema.NullOr(Schema.Int),
  /** Of this node first, then of those it serves. */
  control: Schema.Array(ControlView),
  capacity: Schema.Struct({
    total: NodeCapacity,
    /** Of its own cameras and of those it serves now. */
    used: CapacityNeed,
    /** For all protections together. */
    reserved: CapacityNeed,
  }),
  /** Members of this cluster, this node among them, that no node protects: if they fail, nobody stands in for them. */
  unguarded: Schema.Array(Schema.Struct({ nodeId: NodeId, name: Schema.String })),
  /** Protections that would not fit if all their home nodes failed together. */
  wouldNotFit: Schema.Array(
    Schema.Struct({ protectionId: ProtectionId, nodeId: NodeId, short: Schema.Array(Schema.String) }),
  ),
}).annotate({ identifier: "FailoverStatus" })
export type FailoverStatus = typeof FailoverStatus.Type

/** A node that guards this one, or asked to. */
export const Guardian = Schema.Struct({
  nodeId: NodeId,
  name: Schema.String,
  granted: Schema.Boolean,
  /** When it first asked. */
  askedAt: Instant,
  /** When it was last given the configuration with passwords. */
  bundleAt: Schema.NullOr(Instant),
  bundleDigest: Schema.NullOr(Schema.String),
  /** Cameras whose passwords it was given and that should be changed once it is not trusted any more. */
  passwordsToChange: Schema.Array(Schema.String),
}).annotate({ identifier: "FailoverGuardian" })
export type Guardian = typeof Guardian.Type

/** Answer of `config-bundle`. */
export const BundleAnswer = Schema.Struct({
  homeNodeId: NodeId,
  digest: Schema.String,
  madeMs: EpochMs,
  epoch: Schema.Int,
  /** See `cluster/bundle.ts`. */
  bundle: Schema.String,
})
export type BundleAnswer = typeof BundleAnswer.Type

/** A guardian asks the home node to serve again. */
export const ReturnRequest = Schema.Struct({
  epoch: Schema.Int,
  turns: Schema.Array(Turn).check(Schema.isMaxLength(64)),
  /** That are served in its stead; nodes of earlier versions tell nothing. */
  cameras: Schema.optionalKey(Schema.Int),
  /** By an administrator's decision: it serves before it has what was changed of its cameras at the guardian. */
  withoutChanges: Schema.optionalKey(Schema.Boolean),
})
export const ReturnAnswer = Schema.Struct({ epoch: Schema.Int })

export class ProtectionNotFound
  extends Schema.TaggedError<ProtectionNotFound>()("ProtectionNotFound", { id: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return `There is no protection ${this.id}`
  }
}

export class ProtectionExists extends Schema.TaggedError<ProtectionExists>()("ProtectionExists", {
  nodeId: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return "This node protects that one already"
  }
}

/** What was asked does not fit the state that the protection is in. */
export class ProtectionStateWrong extends Schema.TaggedError<ProtectionStateWrong>()("ProtectionStateWrong", {
  state: ProtectionState,
  detail: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return this.detail
  }
}

/** The home node's administrator has not granted it. */
export class GuardianNotGranted extends Schema.TaggedError<GuardianNotGranted>()("GuardianNotGranted", {
  nodeId: Schema.String,
}, { httpApiStatus: 403 }) {
  override get message(): string {
    return "The administrator of this node has not allowed that node to guard it"
  }
}

/** Two would decide who controls: the cluster's database, and the voters of this node. */
export class GuardedByCluster
  extends Schema.TaggedError<GuardedByCluster>()("GuardedByCluster", {}, { httpApiStatus: 409 })
{
  override get message(): string {
    return "This node is one of a cluster, whose members stand in for each other; a guardian with a database of its own is for a node " +
      "that stands alone"
  }
}

/** Another node holds what is asked for. */
export class ControlElsewhere extends Schema.TaggedError<ControlElsewhere>()("ControlElsewhere", {
  nodeId: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return "Another node serves these cameras at the moment; it has control of them until they come back"
  }
}

/** A home node has none of the cameras that it is asked to serve again. */
export class ConfigurationLost extends Schema.TaggedError<ConfigurationLost>()("ConfigurationLost", {
  cameras: Schema.Int,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `This node knows none of the ${this.cameras} cameras that are served elsewhere: its configuration was lost. ` +
      "Restore its backup; meanwhile they are recorded there"
  }
}

/** The turns that were told do not lead from what this node knows to what is asked. */
export class EpochRefused extends Schema.TaggedError<EpochRefused>()("EpochRefused", {
  inForce: Schema.Int,
  detail: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return this.detail
  }
}
