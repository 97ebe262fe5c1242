/**
 * One node, as three layers with lives of their own.
 *
 *     (a) recorder   what is captured and stored: needs its disk and the cameras, nothing else
 *     (b) http       serves from the first second; what it cannot answer yet is 503
 *     (c) control    actors, cluster, SQL: built when the database can be reached, rebuilt until it can
 *
 * Invariants
 * 1. Neither the absence nor a failure of (c) reaches (a) or (b): they share only the door of services that come late.
 * 2. What stops a start is told at once: a data folder in use, a master key or identity that cannot be read. The database is not
 *    among it.
 * 3. At the end HTTP stops first, then the actors, then the recorder (which seals its files), then PostgreSQL.
 */
import { Late } from "#actors/protocol/late.ts"
import * as Identity from "#cluster/identity.ts"
import type { Members } from "#cluster/members.ts"
import type { Membership } from "#cluster/membership.ts"
import type { Ownership } from "#cluster/ownership.ts"
import type { Presence } from "#cluster/presence.ts"
import * as Cluster from "#cluster/sharding.ts"
import * as Vaults from "#cluster/vault.ts"
import type { MasterKeys, Vault } from "#schema/vault.ts"
import { Clock, Effect, Layer, type Redacted } from "effect"
import { type FileSystem } from "effect"
import type { MessageStorage, Runners, Sharding } from "effect/cluster"
import type { SqlClient } from "effect/sql"
import { type DatabaseServer, keep, layerDatabase, layerServer } from "./control.ts"
import { makeCertificate } from "./host/certificate.ts"
import * as DataFolder from "./host/data-folder.ts"

const dayMs = 86_400_000

export interface NodeOptions {
  readonly dataFolder: string
  readonly name: string
  readonly masterKey: Redacted.Redacted | null
  readonly databaseUrl: Redacted.Redacted | null
  /** `joinSecret`: the master key that the operator gave, where it is null. */
  readonly cluster: Omit<Cluster.ClusterOptions, "name" | "dataFolder" | "certificate">
}

/** What every part of a node may ask for. */
export type NodeBase = Vault | MasterKeys | Identity.NodeIdentity | DatabaseServer | Late | FileSystem.FileSystem

/** What the services of (c) may ask for besides. */
export type ControlBase =
  | SqlClient.SqlClient
  | Sharding.Sharding
  | Runners.Runners
  | MessageStorage.MessageStorage
  | Ownership
  | Members
  | Membership
  | Presence

export interface NodeParts<Recorder, RecorderError, Control, ControlError, Http, HttpError> {
  readonly recorder: Layer.Layer<Recorder, RecorderError, NodeBase>
  readonly control: Layer.Layer<Control, ControlError, Recorder | NodeBase | ControlBase>
  readonly http: Layer.Layer<Http, HttpError, Recorder | NodeBase>
}

export type NodeFailure = DataFolder.DataFolderUnusable | Vaults.MasterKeyUnusable | Identity.IdentityUnusable

/** Nobody looks at its dates or names, only at its key. */
export const transportCertificate = Effect.flatMap(Clock.currentTimeMillis, (nowMs) =>
  makeCertificate({
    commonName: "Nightjar cluster transport",
    names: [],
    addresses: [],
    notBeforeMs: nowMs - dayMs,
    notAfterMs: nowMs + 3650 * dayMs,
  }))

/** The whole node; up when (a) and (b) are. */
export const layer = <Recorder, RecorderError, Control, ControlError, Http, HttpError>(
  options: NodeOptions,
  parts: NodeParts<Recorder, RecorderError, Control, ControlError, Http, HttpError>,
): Layer.Layer<
  Recorder | Http | Exclude<NodeBase, FileSystem.FileSystem>,
  NodeFailure | RecorderError | HttpError,
  FileSystem.FileSystem
> => {
  const { dataFolder } = options
  const base = Layer.mergeAll(Late.layer, layerServer({ url: options.databaseUrl, dataFolder })).pipe(
    Layer.provideMerge(Identity.layer({ dataFolder })),
    Layer.provideMerge(Vaults.layer({ dataFolder, masterKey: options.masterKey })),
    Layer.provideMerge(DataFolder.layer(dataFolder)),
  )
  const control = parts.control.pipe(
    Layer.provideMerge(Cluster.layer({
      ...options.cluster,
      name: options.name,
      dataFolder,
      certificate: transportCertificate,
      joinSecret: options.cluster.joinSecret ?? options.masterKey,
    })),
    Layer.provideMerge(layerDatabase(`nightjar ${options.name}`)),
  )
  return parts.http.pipe(
    Layer.provideMerge(keep(control)),
    Layer.provideMerge(parts.recorder),
    Layer.provideMerge(base),
  )
}
