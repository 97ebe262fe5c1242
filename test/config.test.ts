/** Settings: defaults, one clear line for a bad value, secrets never shown. */
import { BadSetting, describeSettings, readSettings } from "#ops/config.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"

describe("settings", () => {
  it.effect("are complete without any variable", () =>
    Effect.gen(function*() {
      const settings = yield* readSettings({ HOME: "/home/x" })
      assert.strictEqual(settings.httpHost, "127.0.0.1")
      assert.strictEqual(settings.httpPort, 8080)
      assert.strictEqual(settings.rtspPort, 8554)
      assert.strictEqual(settings.databaseUrl, null)
      assert.deepStrictEqual(settings.storage.map((folder) => folder.name), ["main"])
      assert.isTrue(settings.dataDir.startsWith("/"))
    }))

  it.effect.each<readonly [string, string]>([
    ["NIGHTJAR_HTTP_PORT", "80 80"],
    ["NIGHTJAR_HTTP_PORT", "65536"],
    ["NIGHTJAR_LOG_LEVEL", "loud"],
    ["NIGHTJAR_DATABASE_URL", "mysql://somewhere/sekrit"],
    ["NIGHTJAR_MASTER_KEY", "sekrit"],
    ["NIGHTJAR_ADMIN_PASSWORD", "sekrit"],
    ["NIGHTJAR_STORAGE", "no path"],
    ["NIGHTJAR_STORAGE", "a=/x,a=/y"],
    ["NIGHTJAR_DATA_DIR", ""],
    ["NIGHTJAR_HTP_PORT", "8080"],
  ])("name the bad variable %s without its value", ([name, value]) =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(readSettings({ [name]: value }))
      assert.instanceOf(error, BadSetting)
      assert.isTrue(error.message.startsWith(`${name}: `))
      assert.notInclude(error.message, "sekrit")
      assert.notInclude(error.message, "\n")
    }))

  it.effect("read several folders with floors", () =>
    Effect.gen(function*() {
      const { storage } = yield* readSettings({ NIGHTJAR_STORAGE: "fast=/mnt/a:0.5, slow=/mnt/b" })
      assert.deepStrictEqual(storage, [
        { name: "fast", path: "/mnt/a", floorBytes: 1 << 29 },
        { name: "slow", path: "/mnt/b", floorBytes: 1 << 30 },
      ])
    }))

  it.effect("keep secrets redacted and undescribed", () =>
    Effect.gen(function*() {
      const environment = { NIGHTJAR_ADMIN_PASSWORD: "correct horse battery" }
      const settings = yield* readSettings(environment)
      assert.notInclude(String(settings.adminPassword), "horse")
      assert.strictEqual(
        settings.adminPassword === null ? null : Redacted.value(settings.adminPassword),
        "correct horse battery",
      )
      const lines = yield* describeSettings(environment)
      const line = lines.find((one) => one.name === "NIGHTJAR_ADMIN_PASSWORD")
      assert.deepInclude(line, { value: "set", source: "environment" })
      assert.notInclude(JSON.stringify(lines), "horse")
    }))
})
