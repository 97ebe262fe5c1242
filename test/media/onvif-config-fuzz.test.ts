/** Hostile replies: whatever a device answers about its configuration or as its picture, an error of ours or a value comes out. */
import type { DeviceConfig } from "#media/device-config.ts"
import { onvifDriver } from "#media/drivers/onvif.ts"
import { deviceErrors } from "#schema/camera-device.ts"
import { assert, it } from "@effect/vitest"
import { Cause, Effect, Exit, Redacted } from "effect"
import { createServer } from "node:net"
import type { AddressInfo } from "node:net"
import { startDevice } from "../onvif-simulator/device.ts"
import { picture } from "../onvif-simulator/picture.ts"
import { random } from "./random.ts"

const known = new Set(["InvalidInput", ...deviceErrors.map(({ identifier }) => identifier)])

/** Nothing but a value or a failure that is declared. */
const judged = (exit: Exit.Exit<unknown, { readonly _tag: string }>, of: string): boolean => {
  if (Exit.isSuccess(exit)) return true
  const reasons = exit.cause.reasons
  assert.isTrue(
    reasons.every((one) => one._tag === "Fail" && known.has(one.error._tag)),
    `${of}\n${Cause.pretty(exit.cause)}`,
  )
  return false
}

const operations: ReadonlyArray<(config: DeviceConfig) => Effect.Effect<unknown, { readonly _tag: string }>> = [
  (config) => config.osds,
  (config) => config.osdOptions(null),
  (config) => config.createOsd({ type: "text", position: { kind: "upperLeft" }, text: { text: "a" } }),
  (config) => config.setOsd("osd-1", { position: { kind: "lowerLeft" }, text: { fontSize: 20 } }),
  (config) => config.videoSources,
  (config) => config.setVideoSource("vsc", { name: "a", rotation: { mode: "on", degrees: 90 } }),
  (config) => config.audioSources,
  (config) => config.setAudioEncoder("audio", { bitrateBps: 64_000 }),
  (config) => config.moveFocus("source-1", { mode: "continuous", speed: 1 }),
  (config) => config.setNetworkInterface("eth0", { ipv4: { address: "192.0.2.7", prefixLength: 24 } }),
]

it.live("configuration", () =>
  Effect.gen(function*() {
    const device = yield* Effect.acquireRelease(Effect.promise(() => startDevice()), (one) =>
      Effect.promise(() => one.close()))
    const { host, port, state } = device
    const password = Redacted.make("swordfish")
    const { config } = yield* onvifDriver.connect({ host, port, username: "admin", password, requestTimeoutMs: 5_000 })
    const next = random(11)
    const pieces = [
      "<",
      ">",
      "&",
      "]]>",
      "<![CDATA[",
      "<!--",
      "\u0000",
      "NaN",
      "1e999",
      "-1",
      "é",
      " x=\"",
      "</tt:Type>",
    ]
    const twists: ReadonlyArray<(xml: string) => string> = [
      (xml) =>
        xml,
      // One element's text is another.
      (xml) => xml.replace(/>[^<>]{1,20}</g, (text) => next(6) === 0 ? `>${pieces[next(pieces.length)]!}<` : text),
      // Elements are left out, doubled or empty.
      (xml) =>
        xml.replace(/<(tt:\w+)>[^<>]*<\/\1>/g, (one, name: string) => ["", one + one, `<${name}/>`, one][next(4)]!),
      // Attributes go, or hold something else.
      (xml) =>
        xml.replace(/ (\w+)="[^"]*"/g, (one, name: string) => ["", ` ${name}=""`, ` ${name}="x"`, one, one][next(5)]!),
      (xml) => xml.slice(0, next(xml.length)),
      (xml) => {
        const at = next(xml.length)
        return xml.slice(0, at) + pieces[next(pieces.length)]! + xml.slice(at + next(8))
      },
    ]
    let fine = 0
    const rounds = 400
    for (let round = 0; round < rounds; round++) {
      state.quirks.mangle = twists[next(twists.length)]!
      const index = next(operations.length)
      if (judged(yield* Effect.exit(operations[index]!(config)), `round ${round}, operation ${index}`)) fine += 1
      if (round % 20 === 0) state.configuration.osds.length = 1
    }
    assert.isTrue(fine > rounds / 10 && fine < rounds * 9 / 10, String(fine))
  }), 60_000)

it.live("pictures", () =>
  Effect.gen(function*() {
    const next = random(13)
    const heads = [
      "HTTP/1.1 200 OK\r\ncontent-type: image/jpeg\r\n",
      "HTTP/1.1 401 No\r\nwww-authenticate: Digest realm=\"a\", nonce=\"b\", qop=\"auth\", algorithm=SHA-256\r\n",
      "HTTP/1.1 401 No\r\nwww-authenticate: Basic realm=\"a\"\r\nwww-authenticate: Digest\r\n",
      "HTTP/1.1 302 Elsewhere\r\nlocation: http://203.0.113.9/\r\n",
      "HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ntransfer-encoding: chunked\r\n",
    ]
    const pieces = [
      "\r\n",
      ":",
      "\"",
      ",",
      "\u0000",
      "HTTP/1.1 ",
      "content-length: 99999999999",
      "=",
      "Digest nonce=",
      "é",
    ]
    const server = createServer((socket) => {
      socket.on("error", () => {})
      socket.once("data", () => {
        let head = heads[next(heads.length)]!
        for (let change = next(3); change > 0; change--) {
          const at = next(head.length)
          head = head.slice(0, at) + pieces[next(pieces.length)]! + head.slice(at + next(6))
        }
        socket.end(Buffer.concat([Buffer.from(`${head}\r\n`, "latin1"), picture.subarray(0, next(picture.length + 1))]))
      })
    })
    yield* Effect.acquireRelease(
      Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))),
      () => Effect.promise(() => new Promise((resolve) => server.close(resolve))),
    )
    const { port } = server.address() as AddressInfo
    const options = {
      host: "127.0.0.1",
      port,
      username: "admin",
      password: Redacted.make("swordfish"),
      requestTimeoutMs: 5_000,
    }
    let fine = 0
    const rounds = 400
    for (let round = 0; round < rounds; round++) {
      const exit = yield* Effect.exit(onvifDriver.picture(options, `http://127.0.0.1:${port}/a.jpg`))
      if (judged(exit, `round ${round}`)) fine += 1
    }
    assert.isTrue(fine > 10 && fine < rounds / 2, String(fine))
  }), 60_000)
