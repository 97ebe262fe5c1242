/**
 * Every migration of the schema by its file; each exports by default an effect over `SqlClient`.
 *
 * Invariants
 * 1. The list and the folder hold the same files (`test/tidy.test.ts`). It is a list so that a bundle holds them too.
 * 2. One is read when it is run: a schema that is up to date costs nothing.
 */
export const migrations = {
  "0001_cluster.ts": () => import("#actors/store/migrations/0001_cluster.ts"),
  "0002_auth.ts": () => import("#actors/store/migrations/0002_auth.ts"),
  "0003_camera.ts": () => import("#actors/store/migrations/0003_camera.ts"),
  "0004_record.ts": () => import("#actors/store/migrations/0004_record.ts"),
  "0005_replay.ts": () => import("#actors/store/migrations/0005_replay.ts"),
  "0006_http.ts": () => import("#actors/store/migrations/0006_http.ts"),
  "0007_camera.ts": () => import("#actors/store/migrations/0007_camera.ts"),
  "0008_record.ts": () => import("#actors/store/migrations/0008_record.ts"),
  "0009_auth-accounts.ts": () => import("#actors/store/migrations/0009_auth-accounts.ts"),
  "0010_permission.ts": () => import("#actors/store/migrations/0010_permission.ts"),
  "0011_auth-audit.ts": () => import("#actors/store/migrations/0011_auth-audit.ts"),
  "0012_auth-network.ts": () => import("#actors/store/migrations/0012_auth-network.ts"),
  "0013_event.ts": () => import("#actors/store/migrations/0013_event.ts"),
  "0014_event-reader.ts": () => import("#actors/store/migrations/0014_event-reader.ts"),
  "0015_license.ts": () => import("#actors/store/migrations/0015_license.ts"),
  "0016_notification-rules.ts": () => import("#actors/store/migrations/0016_notification-rules.ts"),
  "0017_camera-device.ts": () => import("#actors/store/migrations/0017_camera-device.ts"),
  "0019_camera-ptz.ts": () => import("#actors/store/migrations/0019_camera-ptz.ts"),
  "0020_camera-on-demand.ts": () => import("#actors/store/migrations/0020_camera-on-demand.ts"),
  "0021_camera-catalogue.ts": () => import("#actors/store/migrations/0021_camera-catalogue.ts"),
  "0022_auth-federation.ts": () => import("#actors/store/migrations/0022_auth-federation.ts"),
  "0023_federation-node.ts": () => import("#actors/store/migrations/0023_federation-node.ts"),
  "0024_federation-failover.ts": () => import("#actors/store/migrations/0024_federation-failover.ts"),
  "0026_federation-recordback.ts": () => import("#actors/store/migrations/0026_federation-recordback.ts"),
  "0028_cluster-members.ts": () => import("#actors/store/migrations/0028_cluster-members.ts"),
  "0029_cluster-key.ts": () => import("#actors/store/migrations/0029_cluster-key.ts"),
  "0030_bff-federation.ts": () => import("#actors/store/migrations/0030_bff-federation.ts"),
  "0031_federation-control.ts": () => import("#actors/store/migrations/0031_federation-control.ts"),
  "0032_federation-journal.ts": () => import("#actors/store/migrations/0032_federation-journal.ts"),
  "0033_federation-shadow.ts": () => import("#actors/store/migrations/0033_federation-shadow.ts"),
  "0036_auth-federation.ts": () => import("#actors/store/migrations/0036_auth-federation.ts"),
  "0037_federation-heard.ts": () => import("#actors/store/migrations/0037_federation-heard.ts"),
  "0039_federation-members.ts": () => import("#actors/store/migrations/0039_federation-members.ts"),
} satisfies Record<`${number}_${string}.ts`, () => Promise<unknown>>
