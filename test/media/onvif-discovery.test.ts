/** Finding cameras on the network: what answers are believed, against a device on loopback with noise around it. */
import { DeviceDiscovery } from "#media/discovery.ts"
import { layer, readMatches } from "#media/drivers/onvif-discovery.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { advertise, matches } from "../onvif-simulator/discovery.ts"

const id = "01890000-0000-7000-8000-000000000001"
const device = {
  urn: "urn:uuid:5f5a69c2-e0ae-504f-829b-00a0c0000001",
  addresses: ["http://203.0.113.9/onvif/device_service", "http://127.0.0.1:8899/onvif/device_service"],
  scopes: [
    "onvif://www.onvif.org/name/Front%20door",
    "onvif://www.onvif.org/hardware/X-1",
    "onvif://www.onvif.org/location/a%zz",
  ],
}
const found = { urn: device.urn, host: "127.0.0.1", port: 8899, name: "Front door", model: "X-1", location: "a%zz" }

describe("answers to a probe", () => {
  it("are believed as to the port, and in nothing else about where a camera is", () => {
    assert.deepStrictEqual(readMatches(matches(`urn:uuid:${id}`, device), id, "127.0.0.1"), [found])
    const elsewhere = readMatches(matches(id, { ...device, addresses: ["http://203.0.113.9:81/"] }), id, "10.0.0.7")
    assert.deepInclude(elsewhere[0], { host: "10.0.0.7", port: 81 })
    assert.deepStrictEqual(
      readMatches(matches(id, { ...device, addresses: ["javascript:1", "x"] }), id, "10.0.0.7"),
      [],
    )
  })

  it("are nothing where they answer another question, or are no answer", () => {
    const others = [
      matches("urn:uuid:other", device),
      "",
      id,
      `<a>${id}`,
      `<Envelope><Body><probeMatches/></Body></Envelope>${id}`,
    ]
    for (const text of others) assert.deepStrictEqual(readMatches(text, id, "127.0.0.1"), [])
  })
})

it.live("a device is found on the network of this machine, once, with noise around it", () =>
  Effect.gen(function*() {
    const noise = ["", "garbage", "<", "\0".repeat(2_000), "<a>".repeat(4_000)]
    yield* Effect.acquireRelease(Effect.promise(() => advertise(device, noise)), (one) =>
      Effect.promise(() => one.close()))
    const { probe } = yield* DeviceDiscovery
    const all = yield* probe(1_500)
    // Other devices of the machine's networks may answer too.
    assert.deepStrictEqual(
      all.filter((one) => one.urn === device.urn && one.host === "127.0.0.1"),
      [found],
    )
  }).pipe(Effect.provide(layer)))
