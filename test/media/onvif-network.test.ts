/** The network of an ONVIF device, its factory defaults, and the picture that it serves. */
import type { DeviceOptions } from "#media/device.ts"
import { consequence, hostAddressFault } from "#media/drivers/onvif-network.ts"
import { onvifDriver } from "#media/drivers/onvif.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { type SimulatedDevice } from "../onvif-simulator/device.ts"
import { picture } from "../onvif-simulator/picture.ts"
import { configOf, type Failing, fault, optionsOf, simulated } from "./onvif-device.ts"

describe("the network of a device", () => {
  it.live("is read and changed, and what a change means is told", () =>
    Effect.gen(function*() {
      const device = yield* simulated()
      const { networkInterfaces, setNetworkInterface } = yield* configOf(device)
      assert.deepStrictEqual(yield* networkInterfaces, [{
        token: "eth0",
        enabled: true,
        name: "eth0",
        hardwareAddress: "02:00:00:00:00:01",
        mtu: 1500,
        speedMbps: 100,
        ipv4: {
          enabled: true,
          dhcp: false,
          manual: [{ address: "127.0.0.1", prefixLength: 8 }],
          leased: null,
          linkLocal: null,
        },
        ipv6: { enabled: false, addresses: [] },
      }])
      const faults: ReadonlyArray<readonly [Failing, string]> = [
        [
          setNetworkInterface("eth0", { enabled: false }),
          "/payload/enabled: the camera could not be reached any more: it has no other interface",
        ],
        [
          setNetworkInterface("eth0", { ipv4: { address: "10.0.0.7" } }),
          "/payload/ipv4: give address and prefixLength together",
        ],
        [
          setNetworkInterface("eth0", { ipv4: { address: "10.0.0.255", prefixLength: 24 } }),
          "/payload/ipv4/address: this is the address of the network itself, or of all its hosts",
        ],
        [
          setNetworkInterface("eth0", { ipv4: { dhcp: true, address: "10.0.0.7", prefixLength: 24 } }),
          "/payload/ipv4: give either dhcp or an address",
        ],
        [setNetworkInterface("eth9", {}), "CameraRefused"],
      ]
      for (const [failing, expected] of faults) assert.strictEqual(yield* fault(failing), expected)
      assert.notInclude(device.state.done, "SetNetworkInterfaces")

      assert.deepInclude(yield* setNetworkInterface("eth0", { mtu: 1400 }), {
        rebootNeeded: false,
        addressChange: "none",
      })
      device.state.configuration.network.rebootNeeded = true
      const changed = yield* setNetworkInterface("eth0", { ipv4: { address: "192.0.2.7", prefixLength: 24 } })
      assert.deepInclude(changed, { rebootNeeded: true, addressChange: "certain", newHost: "192.0.2.7" })
      assert.include(changed.advice, "192.0.2.7")
      assert.deepInclude(device.state.configuration.network, {
        mtu: 1400,
        dhcp: false,
        manual: { address: "192.0.2.7", prefixLength: 24 },
      })
      assert.deepInclude(yield* setNetworkInterface("eth0", { ipv4: { dhcp: true } }), {
        addressChange: "possible",
        newHost: null,
      })
    }))

  it.live("may be gone with the change: then nobody knows", () =>
    Effect.gen(function*() {
      const device = yield* simulated()
      const { setNetworkInterface } = yield* configOf(device)
      const { networkInterfaces } = yield* configOf(device)
      const [now] = yield* networkInterfaces
      assert.strictEqual(now!.token, "eth0")
      device.state.quirks.vanishesAt = "SetNetworkInterfaces"
      const error = yield* Effect.flip(
        setNetworkInterface("eth0", { ipv4: { address: "192.0.2.7", prefixLength: 24 } }),
      )
      assert.strictEqual(error._tag, "CameraUnreachable")
      assert.include(error.message, "may have taken the change nevertheless")
    }))

  it("has addresses that hosts can have", () => {
    const fine = [["192.168.1.20", 24], ["10.0.0.0", 31], ["10.0.0.1", 32], ["172.16.255.255", 12]] as const
    for (const [address, prefix] of fine) assert.isNull(hostAddressFault(address, prefix))
    const wrong = [
      ["10.0.0.0", 8],
      ["10.255.255.255", 8],
      ["0.1.2.3", 8],
      ["127.0.0.1", 8],
      ["224.0.0.1", 8],
      ["1.2.3", 8],
      ["::1", 8],
      ["1.2.3.256", 8],
      ["", 24],
    ] as const
    for (const [address, prefix] of wrong) assert.isNotNull(hostAddressFault(address, prefix), `${address}/${prefix}`)
  })

  it("means nothing certain for a camera that is known by another name", () => {
    const now = {
      token: "eth0",
      enabled: true,
      name: "eth0",
      hardwareAddress: "",
      mtu: null,
      speedMbps: null,
      ipv4: {
        enabled: true,
        dhcp: true,
        manual: [],
        leased: { address: "192.0.2.5", prefixLength: 24 },
        linkLocal: null,
      },
      ipv6: null,
    }
    const ipv4 = { address: "192.0.2.6", prefixLength: 24 }
    assert.strictEqual(consequence("192.0.2.5", now, { ipv4 }, false).addressChange, "certain")
    assert.strictEqual(consequence("yard.example", now, { ipv4 }, false).addressChange, "possible")
    assert.strictEqual(consequence("192.0.2.6", now, { ipv4 }, false).addressChange, "none")
    assert.strictEqual(consequence("192.0.2.5", now, { ipv4: { dhcp: true } }, false).addressChange, "none")
    assert.strictEqual(consequence("192.0.2.5", now, { enabled: false }, false).addressChange, "possible")
  })
})

it.live("a reset tells the device how far", () =>
  Effect.gen(function*() {
    const device = yield* simulated()
    const { factoryReset } = yield* configOf(device)
    yield* factoryReset("soft")
    yield* factoryReset("hard")
    assert.deepStrictEqual(device.state.configuration.resets, ["Soft", "Hard"])
  }))

describe("the picture that a device serves", () => {
  const fetched = (device: SimulatedDevice, more: Partial<DeviceOptions> = {}, uri?: string) =>
    Effect.gen(function*() {
      const options = optionsOf(device, more)
      const own = uri ?? `http://127.0.0.1:${device.port}/snapshot/main.jpg`
      return yield* onvifDriver.picture(options, own)
    })

  it.live.each(["digest", "basic", "none"] as const)("is fetched by %s", (pictureAuth) =>
    Effect.gen(function*() {
      const device = yield* simulated({ pictureAuth })
      const { bytes, contentType } = yield* fetched(device)
      assert.deepStrictEqual([contentType, Buffer.from(bytes).equals(picture)], ["image/jpeg", true])
      const clear = Buffer.from("admin:swordfish").toString("base64")
      assert.strictEqual(device.heard.some((text) => text.includes(clear)), pictureAuth === "basic")
      if (pictureAuth === "none") return
      const guess = { password: Redacted.make("guess") }
      assert.strictEqual((yield* Effect.flip(fetched(device, guess)))._tag, "CameraAuthFailed")
      assert.strictEqual((yield* Effect.flip(fetched(device, { username: null })))._tag, "CameraAuthFailed")
    }))

  it.live("is a picture of the camera's own host, whole and in time, or none", () =>
    Effect.gen(function*() {
      const device = yield* simulated({ pictureAuth: "none" })
      const cases = [["html", "protocol"], ["disguised", "protocol"], ["elsewhere", "protocol"], [
        "endless",
        "tooLarge",
      ], [
        "silent",
        "timeout",
      ]] as const
      for (const [served, reason] of cases) {
        device.state.quirks.picture = served
        const more = served === "silent" ? { requestTimeoutMs: 300 } : {}
        assert.deepInclude(yield* Effect.flip(fetched(device, more)), { _tag: "CameraUnreachable", reason })
      }
      const heard = device.heard.length
      for (
        const uri of [
          "http://localhost/a.jpg",
          "https://127.0.0.1/a.jpg",
          "http://u:p@127.0.0.1/",
          "ftp://127.0.0.1/",
          "",
        ]
      ) {
        assert.deepInclude(yield* Effect.flip(fetched(device, {}, uri)), { reason: "protocol" })
      }
      assert.lengthOf(device.heard, heard, "nobody was asked")
      device.state.quirks.busy = true
      assert.deepInclude(yield* Effect.flip(fetched(device)), { reason: "busy" })
    }))
})
