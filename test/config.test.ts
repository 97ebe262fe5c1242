/** Settings: defaults, one clear line for a bad value, secrets never shown. */
import { BadSetting, describeSettings, readSettings } from "#ops/config.ts"
import { advertisedUrl } from "#ops/reach.ts"
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
    ["NIGHTJAR_HTTP_ADVERTISE", "https://sekrit/path"],
    ["NIGHTJAR_LOG_LEVEL", "loud"],
    ["NIGHTJAR_DATABASE_URL", "mysql://somewhere/sekrit"],
    ["NIGHTJAR_MASTER_KEY", "sekrit"],
    ["NIGHTJAR_ADMIN_PASSWORD", "sekrit"],
    ["NIGHTJAR_STORAGE", "no path"],
    ["NIGHTJAR_STORAGE", "a=/x,a=/y"],
    ["NIGHTJAR_DATA_DIR", ""],
    ["NIGHTJAR_HTP_PORT", "8080"],
    ["NIGHTJAR_WEBRTC_UDP_PORTS", "8575-8555"],
    ["NIGHTJAR_WEBRTC_TCP", "maybe"],
    ["NIGHTJAR_WEBRTC_ADDITIONAL_HOSTS", "http://example.org/"],
    ["NIGHTJAR_ICE_SERVERS", "turn:me:sekrit@"],
    ["NIGHTJAR_ICE_SERVERS", "turn:relay.example.org"],
  ])("name the bad variable %s without its value", ([name, value]) =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(readSettings({ [name]: value }))
      assert.instanceOf(error, BadSetting)
      assert.isTrue(error.message.startsWith(`${name}: `))
      assert.notInclude(error.message, "sekrit")
      assert.notInclude(error.message, "\n")
    }))

  it.effect("tell other nodes an address that they can reach", () =>
    Effect.gen(function*() {
      const told = (environment: Record<string, string>, local: ReadonlyArray<string> = ["192.0.2.7"]) =>
        Effect.map(readSettings(environment), (settings) => advertisedUrl(settings, 8443, local))
      assert.strictEqual(yield* told({}), "http://127.0.0.1:8443")
      assert.strictEqual(yield* told({ NIGHTJAR_HTTP_HOST: "192.0.2.1" }), "https://192.0.2.1:8443")
      assert.strictEqual(
        yield* told({ NIGHTJAR_HTTP_HOST: "2001:db8::1", NIGHTJAR_TLS: "off" }),
        "http://[2001:db8::1]:8443",
      )
      assert.strictEqual(yield* told({ NIGHTJAR_HTTP_HOST: "0.0.0.0" }), "https://192.0.2.7:8443")
      assert.strictEqual(yield* told({ NIGHTJAR_HTTP_HOST: "::" }, []), "https://127.0.0.1:8443")
      const inCluster = { NIGHTJAR_HTTP_HOST: "0.0.0.0", NIGHTJAR_CLUSTER_HOST: "10.0.0.5" }
      assert.strictEqual(yield* told(inCluster), "https://10.0.0.5:8443")
      const advertised = "https://nvr.example.org"
      assert.strictEqual(yield* told({ ...inCluster, NIGHTJAR_HTTP_ADVERTISE: advertised }), advertised)
    }))

  it.effect("read several folders with floors", () =>
    Effect.gen(function*() {
      const { storage } = yield* readSettings({ NIGHTJAR_STORAGE: "fast=/mnt/a:0.5, slow=/mnt/b" })
      assert.deepStrictEqual(storage, [
        { name: "fast", path: "/mnt/a", floorBytes: 1 << 29 },
        { name: "slow", path: "/mnt/b", floorBytes: 1 << 30 },
      ])
    }))

  it.effect("read what browsers are told of", () =>
    Effect.gen(function*() {
      const environment = {
        NIGHTJAR_ICE_SERVERS: "stun:stun.example.org:3478, turn:me:s%40crit@relay.example.org:3478?transport=udp",
        NIGHTJAR_WEBRTC_UDP_PORTS: "9000",
        NIGHTJAR_WEBRTC_ADDITIONAL_HOSTS: "203.0.113.7:9001,[2001:db8::1]:9,nvr.example.org,2001:db8::2",
      }
      const { iceServers, webrtcAdditionalHosts, webrtcPorts } = yield* readSettings(environment)
      assert.deepStrictEqual(iceServers.map(({ url, username }) => [url, username]), [
        ["stun:stun.example.org:3478", null],
        ["turn:relay.example.org:3478?transport=udp", "me"],
      ])
      assert.strictEqual(Redacted.value(iceServers[1]!.credential!), "s@crit")
      assert.deepStrictEqual(webrtcPorts, [9000, 9000])
      assert.strictEqual(webrtcAdditionalHosts.length, 4)
      assert.notInclude(JSON.stringify(yield* describeSettings(environment)), "crit")
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
