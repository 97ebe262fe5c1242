/** What the pages of cameras make of what is written, held down and pulled, without a browser. */
import { assert, describe, it } from "@effect/vitest"
import { afterEach, beforeEach, vi } from "vitest"
import { serversIn } from "../../http/web/ice.ts"
import { addressOf, candidateOfText } from "../../http/web/parts/camera-candidate.ts"
import {
  isMoveKey,
  Motion,
  moveMs,
  type Velocity,
  velocityOf,
  velocityOfKeys,
} from "../../http/web/parts/camera-motion.ts"

describe("ICE servers", () => {
  it("are read from the links of an answer as they were written", () => {
    const link = `<stun:a:3478>; rel="ice-server", <https://a/>; rel="next", ` +
      `<turn:b>; rel="ice-server"; username="me"; credential="s\\"cr\\\\it, <x>"; credential-type="password"`
    assert.deepStrictEqual(serversIn(link), [
      { urls: "stun:a:3478" },
      { urls: "turn:b", username: "me", credential: `s"cr\\it, <x>` },
    ])
    assert.deepStrictEqual(serversIn(null), [])
  })
})

describe("addresses by hand", () => {
  const onvif = (text: string) => {
    const found = candidateOfText(text, "")
    return found?.kind === "onvif" ? [found.host, found.port] : null
  }
  it("takes an address, with a port or without, for a camera that speaks ONVIF", () => {
    assert.deepStrictEqual(onvif("192.168.1.20"), ["192.168.1.20", 80])
    assert.deepStrictEqual(onvif(" camera.example:8080 "), ["camera.example", 8080])
    assert.deepStrictEqual(onvif("http://10.0.0.7/onvif/device_service"), ["10.0.0.7", 80])
    assert.deepStrictEqual(onvif("[fe80::1]:81"), ["fe80::1", 81])
  })
  it("takes an RTSP address for a stream, and shows no password of it", () => {
    const found = candidateOfText("rtsp://viewer:secret@192.168.1.20/one", " rtsp://192.168.1.20/two ")
    assert.deepInclude(found, { kind: "rtsp", title: "192.168.1.20", subUrl: "rtsp://192.168.1.20/two" })
    assert.strictEqual(addressOf(found!), "rtsp://192.168.1.20/one")
  })
  it("takes nothing else", () => {
    for (const text of ["", "  ", "ftp://a/b", "https://a", "a b", "rtsp://", "1.2.3.4:99999"]) {
      assert.isNull(candidateOfText(text, ""), text)
    }
  })
})

describe("what moves a camera", () => {
  it("is still within the dead zone of a stick, and reaches the whole speed at its end", () => {
    assert.isNull(velocityOf([0.1, -0.14, 0, 0.05], 1))
    assert.isNull(velocityOf([], 1))
    assert.deepStrictEqual(velocityOf([1, -1, 0, -1], 0.5), { pan: 0.5, tilt: 0.5, zoom: 0.5 })
    assert.deepStrictEqual(velocityOf([-0.575, 0, 0, 0], 1), { pan: -0.5, tilt: 0, zoom: 0 })
  })
  it("adds the keys that are held, and rests between opposite ones", () => {
    assert.deepStrictEqual(velocityOfKeys(["ArrowLeft", "ArrowUp", "+"], 0.3), { pan: -0.3, tilt: 0.3, zoom: 0.3 })
    assert.isNull(velocityOfKeys(["ArrowLeft", "ArrowRight"], 1))
    assert.isNull(velocityOfKeys([], 1))
    assert.deepStrictEqual(["-", "=", "a", "Enter"].map(isMoveKey), [true, true, false, false])
  })
})

describe("a camera that is held in motion", () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => void vi.useRealTimers())

  const right: Velocity = { pan: 1, tilt: 0, zoom: 0 }
  const up: Velocity = { pan: 0, tilt: 1, zoom: 0 }
  /** A camera that answers when it is told to. */
  const camera = () => {
    const heard: Array<Velocity | "stop" | "error"> = []
    const waiting: Array<{ readonly resolve: () => void; readonly reject: (error: Error) => void }> = []
    const answer = () =>
      new Promise<void>((resolve, reject) => {
        waiting.push({ resolve, reject })
      })
    const motion = new Motion<Velocity>({
      move: (velocity, timeoutMs) => {
        assert.strictEqual(timeoutMs, moveMs)
        heard.push(velocity)
        return answer()
      },
      stop: () => {
        heard.push("stop")
        return answer()
      },
      onError: () => heard.push("error"),
    })
    const settle = async (how: "resolve" | "reject") => {
      const one = waiting.shift()!
      if (how === "resolve") one.resolve()
      else one.reject(new Error("no"))
      await vi.advanceTimersByTimeAsync(0)
    }
    return { motion, heard, waiting, settle }
  }

  it("hears the move again until it is let go, and then the stop", async () => {
    const { heard, motion, settle } = camera()
    motion.want(right)
    motion.want({ ...right })
    await settle("resolve")
    assert.deepStrictEqual(heard, [right])
    await vi.advanceTimersByTimeAsync(500)
    await settle("resolve")
    motion.want(null)
    await settle("resolve")
    await vi.advanceTimersByTimeAsync(10_000)
    assert.deepStrictEqual(heard, [right, right, "stop"])
  })

  it("hears the last wish of those that came while it was busy, and a stop only after the move", async () => {
    const { heard, motion, settle, waiting } = camera()
    motion.want(right)
    motion.want(up)
    motion.want(null)
    assert.strictEqual(waiting.length, 1)
    await settle("resolve")
    assert.deepStrictEqual(heard, [right, "stop"])
    motion.want(up)
    await settle("resolve")
    assert.deepStrictEqual(heard, [right, "stop", up])
  })

  it("is left alone once it has refused, until it is asked anew", async () => {
    const { heard, motion, settle } = camera()
    motion.want(right)
    await settle("reject")
    await vi.advanceTimersByTimeAsync(10_000)
    motion.want(null)
    assert.deepStrictEqual(heard, [right, "error"])
    motion.want(right)
    assert.deepStrictEqual(heard, [right, "error", right])
  })
})
