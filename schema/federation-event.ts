/** Events of failover: a part of the registry in `event.ts`. */
import { Schema } from "effect"
import { NodeId } from "./common.ts"

/** A protection or a reroute of one home node. */
const failover = Schema.Struct({
  homeNodeId: NodeId,
  homeName: Schema.String,
  servingNodeId: NodeId,
  epoch: Schema.Int,
  reason: Schema.String,
})
const takeover = Schema.Struct({
  ...failover.fields,
  rerouteId: Schema.String,
  drill: Schema.Boolean,
  channels: Schema.Int,
  /** From the last sign of the home node to the first key frame here, of the channel that waited longest. */
  gapMs: Schema.NullOr(Schema.Int),
})

/** How far footage of a reroute has come home. */
const recordback = Schema.Struct({
  rerouteId: Schema.String,
  homeNodeId: NodeId,
  servingNodeId: NodeId,
  segmentsDone: Schema.Int,
  segmentsTotal: Schema.Int,
  bytesDone: Schema.Int,
  bytesTotal: Schema.Int,
  reason: Schema.String,
})

export const failoverEventTypes = {
  "failover.takeover.started": {
    title: "Takeover begun",
    description: "This node begins to serve the cameras of another one",
    severity: "critical",
    permission: "federation:read",
    notify: true,
    data: takeover,
  },
  "failover.takeover.completed": {
    title: "Takeover done",
    description: "Every channel of the other node that delivers is recorded here; `gapMs` is what was measured",
    severity: "warning",
    permission: "federation:read",
    notify: true,
    data: takeover,
  },
  "failover.takeover.failed": {
    title: "Takeover failed",
    description: "The cameras of another node could not be taken over; it is tried again",
    severity: "critical",
    permission: "federation:read",
    notify: true,
    data: failover,
  },
  "failover.failback.completed": {
    title: "Served at home again",
    description: "The home node serves its cameras again; its footage follows",
    severity: "info",
    permission: "federation:read",
    notify: true,
    data: takeover,
  },
  "failover.failback.held": {
    title: "Failback does not come about",
    description:
      "A home node that is back does not take its cameras, again and again; they are served here meanwhile, and it is tried on. `reason` " +
      "is its word. Where `changes` cannot be fetched from here an administrator may fail back without them",
    severity: "critical",
    permission: "federation:read",
    notify: true,
    data: Schema.Struct({ ...failover.fields, refusals: Schema.Int, changes: Schema.NullOr(Schema.Int) }),
  },
  "failover.recordback.completed": {
    title: "Footage is home",
    description: "Everything that was recorded elsewhere has come home, and its receipts are in",
    severity: "info",
    permission: "federation:read",
    notify: true,
    data: takeover,
  },
  "failover.configuration.merged": {
    title: "Changes came home",
    description:
      "What was changed of this node's cameras while another node served them is in force here; `conflicts` fields were changed on both nodes",
    severity: "warning",
    permission: "federation:read",
    notify: true,
    data: Schema.Struct({ ...failover.fields, applied: Schema.Int, conflicts: Schema.Int }),
  },
  "failover.recordback.started": {
    title: "Footage goes home",
    description: "What was recorded here for another node begins to go there",
    severity: "info",
    permission: "federation:read",
    notify: false,
    data: recordback,
  },
  "failover.recordback.paused": {
    title: "Footage rests on its way home",
    description: "An administrator paused it; what came home stays there",
    severity: "info",
    permission: "federation:read",
    notify: false,
    data: recordback,
  },
  "failover.recordback.resumed": {
    title: "Footage goes on home",
    description: "An administrator let it go on",
    severity: "info",
    permission: "federation:read",
    notify: false,
    data: recordback,
  },
  "failover.recordback.failed": {
    title: "Footage could not be brought home",
    description:
      "Its home node refused it again and again, or a part of it is gone; it stays here and can be tried again",
    severity: "warning",
    permission: "federation:read",
    notify: true,
    data: recordback,
  },
  "failover.recordback.refused": {
    title: "Footage was refused at home",
    description:
      "The home node does not take some segments; `reason` is its word on the last of them. They are tried again a few times",
    severity: "warning",
    permission: "federation:read",
    notify: false,
    data: Schema.Struct({ ...recordback.fields, segments: Schema.Int }),
  },
  "failover.protection.changed": {
    title: "Protection changed",
    description: "A protection is in another state than before: ready, stale, without room, released",
    severity: "info",
    permission: "federation:read",
    notify: false,
    data: Schema.Struct({ ...failover.fields, from: Schema.String, to: Schema.String }),
  },
} as const
