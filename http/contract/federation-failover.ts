/**
 * The federation service, as far as nodes stand in for each other: settings, protections, takeovers and failbacks, reroutes; and what nodes
 * ask of each other about it.
 */
import { NodeId, Page } from "#schema/common.ts"
import { ControlRequest, LeaseAnswer, LeaseRelease, LeaseReleased } from "#schema/federation-control.ts"
import {
  BundleAnswer,
  ConfigurationLost,
  ControlElsewhere,
  ControlView,
  EffectiveFailoverSettings,
  EpochRefused,
  FailoverSettingsUpdate,
  FailoverStatus,
  GuardedByCluster,
  Guardian,
  GuardianNotGranted,
  ProtectionCreate,
  ProtectionExists,
  ProtectionId,
  ProtectionNotFound,
  ProtectionStateWrong,
  ProtectionView,
  Reroute,
  ReturnAnswer,
  ReturnRequest,
} from "#schema/federation-failover.ts"
import {
  ConfigurationConflict,
  ConflictId,
  ConflictImpossible,
  ConflictNotFound,
  ConflictSide,
  JournalAnswer,
  JournalRequest,
} from "#schema/federation-journal.ts"
import { RerouteStatus } from "#schema/federation-protection.ts"
import { Heartbeat, NodeNotFound } from "#schema/federation.ts"
import { InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, created, extension, idempotencyKey, ifMatch, pageQuery, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/federation/api/v1/federation/failover"
const one = `${base}/protections/:id`
const params = { id: ProtectionId }
const headers = idempotencyKey
const error = problems(ProtectionNotFound, ProtectionStateWrong)

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })
const reads = access("federation:read")
const writes = access("federation:write")
const peers = access("peer")
const control = `${base}/control`

const settings = [
  HttpApiEndpoint.get("failoverSettings", `${base}/settings`, { success: versioned(EffectiveFailoverSettings) })
    .annotateMerge(reads).annotateMerge(
      doc(
        "Get failover settings",
        "Effective values of this node; `sources` tells which of them were set and which are defaults. Members of a cluster guard each " +
          "other by themselves as `guardMembers`, `memberClass` and `memberGuardians` of the guarded node say.",
      ),
    ),
  HttpApiEndpoint.put("updateFailoverSettings", `${base}/settings`, {
    headers: ifMatch,
    payload: FailoverSettingsUpdate,
    success: versioned(EffectiveFailoverSettings),
    error: problems(InvalidInput, VersionConflict),
  }).annotateMerge(writes).annotateMerge(
    doc("Change failover settings", "The whole object: what is left out goes back to its default."),
  ),
  HttpApiEndpoint.get("failoverStatus", `${base}/status`, { success: FailoverStatus }).annotateMerge(reads)
    .annotateMerge(
      doc(
        "Get failover status",
        "For a badge and for what is blocked: whom this node serves, who serves it, what it could carry, and which protections would " +
          "not fit if all their home nodes failed together.",
      ),
    ),
] as const

const protections = [
  HttpApiEndpoint.get("protections", `${base}/protections`, { success: Page(ProtectionView) })
    .annotateMerge(reads).annotateMerge(doc("List protections", "Whom this node guards.")),
  HttpApiEndpoint.post("protect", `${base}/protections`, {
    headers,
    payload: ProtectionCreate,
    success: created(ProtectionView),
    error: problems(NodeNotFound, ProtectionExists, ProtectionStateWrong, InvalidInput),
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Register a protection",
      "This node becomes a guardian of `nodeId`: `pendingGrant` until that node's administrator allows it. Then its configuration is " +
        "fetched, room is reserved, and each camera is tried with a second session (`sessions`). One that is there by default (`sources`) " +
        "becomes what is asked for here.",
    ),
  ),
  HttpApiEndpoint.get("protection", one, { params, success: ProtectionView, error: problems(ProtectionNotFound) })
    .annotateMerge(reads).annotateMerge(extension).annotateMerge(doc("Get a protection")),
  HttpApiEndpoint.delete("release", one, { params, error: problems(ProtectionNotFound) }).annotateMerge(writes)
    .annotateMerge(
      doc(
        "Release a protection",
        "What is served is given back first, and what was recorded goes home; then nothing of the other node is left here. One that was " +
          "there by default does not come again: its node is in `membersNotGuarded` of the settings.",
      ),
    ),
  HttpApiEndpoint.post("takeover", `${one}/takeover`, {
    params,
    headers,
    payload: Schema.Struct({ homeIsOff: Schema.optionalKey(Schema.Boolean) }),
    success: ProtectionView,
    error,
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Take over",
      "At once, whether the home node is there or not. `homeIsOff` is the administrator's statement that the home node is off: " +
        "control of the cameras moves with it, not only recording.",
    ),
  ),
  HttpApiEndpoint.post("failback", `${one}/failback`, {
    params,
    headers,
    query: { withoutChanges: Schema.optionalKey(Schema.Literals(["true", "false"])) },
    success: ProtectionView,
    error,
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Fail back",
      "As soon as the home node is there. Both record for a moment; what was recorded here goes home. A failback waits until the home " +
        "node has what was changed here of its cameras; `withoutChanges` lets the changes follow when they can be fetched.",
    ),
  ),
  HttpApiEndpoint.post("discardChanges", `${one}/discard-changes`, { params, headers, success: ProtectionView, error })
    .annotateMerge(writes).annotateMerge(extension).annotateMerge(
      doc(
        "Discard changes that never came home",
        "Of the home node's cameras, made here while they were served here, where the home node cannot take them. What they were stays in " +
          "the audit log. Not while the cameras are served here: they are in force here.",
      ),
    ),
  HttpApiEndpoint.post("snapshot", `${one}/snapshot`, { params, headers, success: ProtectionView, error })
    .annotateMerge(writes).annotateMerge(
      doc(
        "Refresh the snapshot",
        "Fetches the home node's configuration now; it is refreshed by itself when it changes.",
      ),
    ),
  HttpApiEndpoint.post("drill", `${one}/drill`, { params, headers, success: ProtectionView, error })
    .annotateMerge(writes).annotateMerge(extension).annotateMerge(
      doc(
        "Hold a drill",
        "A takeover on purpose, which ends by itself after `drillMs`; the home node goes on recording. `drill` of the protection " +
          "tells the measured gap, and the reroute that of each channel.",
      ),
    ),
] as const

const rest = [
  HttpApiEndpoint.get("reroutes", `${base}/reroutes`, {
    query: pageQuery,
    success: Page(Reroute),
    error: problems(InvalidCursor),
  }).annotateMerge(reads).annotateMerge(
    doc(
      "List reroutes",
      "Newest first. `gapMs` is from the last sign of the home node to the first key frame stored here.",
    ),
  ),
  HttpApiEndpoint.get("configurationConflicts", `${base}/conflicts`, {
    query: pageQuery,
    success: Page(ConfigurationConflict),
    error: problems(InvalidCursor),
  }).annotateMerge(reads).annotateMerge(extension).annotateMerge(
    doc(
      "List conflicts of configuration",
      "Fields of this node's cameras and recordings that were changed here and, while another node served them, there, to different " +
        "values. The later change is in force until somebody decides. Passwords are not told.",
    ),
  ),
  HttpApiEndpoint.post("resolveConflict", `${base}/conflicts/:id/resolve`, {
    params: { id: ConflictId },
    headers,
    payload: Schema.Struct({ side: ConflictSide }),
    success: ConfigurationConflict,
    error: problems(ConflictNotFound, ConflictImpossible, ControlElsewhere),
  }).annotateMerge(writes).annotateMerge(extension).annotateMerge(
    doc("Decide a conflict of configuration", "That side's value is in force, and the conflict is gone."),
  ),
  HttpApiEndpoint.get("guardian", `${base}/guardian`, { success: Page(Guardian) })
    .annotateMerge(access("federation:read", { orPeer: true })).annotateMerge(
      doc(
        "Get the failover guardian",
        "Who guards this node or asked to; another node sees itself alone. `passwordsToChange` names cameras whose passwords a node " +
          "was given that is not trusted any more.",
      ),
    ),
  HttpApiEndpoint.post("grantGuardian", `${base}/guardian/:nodeId/grant`, {
    params: { nodeId: NodeId },
    payload: Schema.Struct({ granted: Schema.Boolean }),
    success: Guardian,
    error: problems(NodeNotFound, GuardedByCluster),
  }).annotateMerge(writes).annotateMerge(extension).annotateMerge(
    doc(
      "Allow a guardian, or no longer",
      "Only then do the passwords of cameras leave this node, encrypted to that one. 409 `guarded_by_cluster` where this node is one of a " +
        "cluster, whose members stand in for each other.",
    ),
  ),
] as const

const ofPeers = [
  HttpApiEndpoint.get("failoverHeartbeat", `${base}/heartbeat`, { success: Heartbeat }).annotateMerge(peers)
    .annotateMerge(doc("Failover heartbeat", "What a node says of itself, twice a second.")),
  HttpApiEndpoint.get("configBundle", `${base}/config-bundle`, {
    success: BundleAnswer,
    error: problems(GuardianNotGranted, NodeNotFound),
  }).annotateMerge(peers).annotateMerge(audited("export")).annotateMerge(
    doc(
      "Failover configuration bundle",
      "Signed by this node (JWS) and encrypted to the asking one (JWE); 403 `guardian_not_granted` until the administrator allows it.",
    ),
  ),
  HttpApiEndpoint.get("rerouteStatus", `${base}/reroute-status`, {
    query: { homeNodeId: NodeId },
    success: RerouteStatus,
  }).annotateMerge(peers).annotateMerge(
    doc("Failover takeover status probe", "Who serves that home node, as this node knows."),
  ),
  HttpApiEndpoint.post("failoverJournal", `${base}/journal`, {
    payload: JournalRequest,
    success: JournalAnswer,
    error: problems(NodeNotFound),
  }).annotateMerge(peers).annotateMerge(extension).annotateMerge(
    doc(
      "Take the changes that were made here",
      "A home node fetches what was changed of its cameras while they were served here, signed (JWS) and encrypted to it (JWE), and says " +
        "which of them it has.",
    ),
  ),
  HttpApiEndpoint.post("comeBack", `${base}/return`, {
    payload: ReturnRequest,
    success: ReturnAnswer,
    error: problems(GuardianNotGranted, EpochRefused, ConfigurationLost),
  }).annotateMerge(peers).annotateMerge(extension).annotateMerge(
    doc("Take cameras back", "A guardian asks this node to serve again; answered when its cameras are recorded here."),
  ),
] as const

const ofControl = [
  HttpApiEndpoint.post("takeBackControl", `${control}/take-back`, {
    payload: Schema.Struct({ guardianIsOff: Schema.Literal(true) }),
    success: Page(ControlView),
    error: problems(ControlElsewhere),
  }).annotateMerge(writes).annotateMerge(extension).annotateMerge(
    doc(
      "Take control of this node's cameras back",
      "For a node with one guardian, after a start without it: two nodes decide about control together. `guardianIsOff` is the " +
        "administrator's statement that the guardian is off. Refused while the guardian says that it has control.",
    ),
  ),
  HttpApiEndpoint.post("voteOnControl", `${control}/votes`, {
    payload: ControlRequest,
    success: LeaseAnswer,
    error: problems(GuardianNotGranted),
  }).annotateMerge(peers).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Vote on control",
      "A node asks for itself, about its own cameras or those it guards. A stale epoch is not granted: `inForce` and `turns` tell what was.",
    ),
  ),
  HttpApiEndpoint.post("releaseControl", `${control}/releases`, {
    payload: LeaseRelease,
    success: LeaseReleased,
    error: problems(GuardianNotGranted),
  }).annotateMerge(peers).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("Let control go", "What was granted to this node later stays."),
  ),
] as const

export class FederationFailoverGroup extends HttpApiGroup.make("federationFailover")
  .add(...settings)
  .add(...protections)
  .add(...rest)
  .add(...ofPeers)
  .add(...ofControl)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Failover", description: "Nodes that stand in for each other." }))
{}
