/** Rings of tests: `unit` (no processes but its own) and `real` (PostgreSQL, GStreamer, ffmpeg, Chromium, kill -9). */
import { defineConfig } from "vitest/config"
import { BaseSequencer, type TestSpecification } from "vitest/node"

const root = new URL("..", import.meta.url).pathname

// `isolate: false`, in both rings: files keep nothing between them, and what they import is read once a worker: a third of the work of
// the unit ring, a quarter of a short real file's.

/** The longest files, longest first: begun early, so that none of them is left alone at the end. A file is as small as its themes. */
const longest = [
  "cluster/cluster.real.test.ts",
  "cluster/unclean.real.test.ts",
  "browser/wall.real.test.ts",
  "browser/camera.real.test.ts",
  "cluster/failover.real.test.ts",
  "federation-failover.real.test.ts",
  "federation-partition.real.test.ts",
  "browser/manage.real.test.ts",
  "browser/demo.real.test.ts",
  "browser/nodes.real.test.ts",
  "bff-federation.real.test.ts",
  "cluster/namespaces.real.test.ts",
  "access.real.test.ts",
  "camera-simulator.real.test.ts",
  "camera-webrtc.real.test.ts",
  "camera-live.real.test.ts",
  "browser/dashboard.real.test.ts",
  "camera-catalogue.real.test.ts",
  "cluster/postgres.real.test.ts",
  "camera-config.real.test.ts",
  "media/capture.real.test.ts",
  "notification.real.test.ts",
  "fuzz-http.real.test.ts",
  "access-matrix.real.test.ts",
  "reindex.real.test.ts",
  "node-kill.real.test.ts",
  "browser/phone.real.test.ts",
  "node-database.real.test.ts",
  "auth.real.test.ts",
  "auth-network.real.test.ts",
  "cluster/membership.real.test.ts",
  "media/storage-crash.test.ts",
]

class LongestFirst extends BaseSequencer {
  override async sort(files: Array<TestSpecification>): Promise<Array<TestSpecification>> {
    const place = ({ moduleId }: TestSpecification) => {
      const at = longest.findIndex((name) => moduleId.endsWith(`/test/${name}`))
      return at === -1 ? longest.length : at
    }
    return (await super.sort(files)).toSorted((a, b) => place(a) - place(b))
  }
}

export default defineConfig({
  root,
  test: {
    // Files wait for processes and timers: four at once use 92 of 100 of two cores, and a fifth makes the others wait longer.
    maxWorkers: 4,
    sequence: { sequencer: LongestFirst },
    reporters: ["default"],
    projects: [
      {
        root,
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/**/*.real.test.ts", "node_modules/**"],
          testTimeout: 60_000,
          isolate: false,
        },
      },
      {
        root,
        test: {
          name: "real",
          include: ["test/**/*.real.test.ts"],
          globalSetup: "test/harness/seed-setup.ts",
          exclude: ["node_modules/**"],
          setupFiles: ["test/harness/failed-page.ts"],
          testTimeout: 180_000,
          hookTimeout: 120_000,
          isolate: false,
        },
      },
    ],
  },
})
