/** Rings of tests: `unit` (no processes but its own) and `real` (PostgreSQL, GStreamer, ffmpeg, Chromium, kill -9). */
import { defineConfig } from "vitest/config"

const root = new URL("..", import.meta.url).pathname

export default defineConfig({
  root,
  test: {
    // Rings that wait for processes and timers leave cores idle.
    maxWorkers: 4,
    reporters: ["default"],
    projects: [
      {
        root,
        test: {
          name: "unit",
          include: ["test/**/*.test.ts"],
          exclude: ["test/**/*.real.test.ts", "node_modules/**"],
          testTimeout: 20_000,
        },
      },
      {
        root,
        test: {
          name: "real",
          include: ["test/**/*.real.test.ts"],
          exclude: ["node_modules/**"],
          testTimeout: 180_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
})
