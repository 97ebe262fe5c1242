/** The simulated camera by itself: packets, frame marks, login, faults. Its viewer is `camera-simulator/viewer.ts`. */
import { afterEach, describe, expect, it } from "vitest"
import { loadAudio, loadVideo, nalUnits, type VideoCodec } from "./camera-simulator/footage.ts"
import { coverage, framesOf } from "./camera-simulator/frames.ts"
import { findFootage } from "./camera-simulator/mount.ts"
import type { CameraOptions } from "./camera-simulator/options.ts"
import { audioTemplates, MTU, senderReport, stamped, videoTemplates } from "./camera-simulator/packets.ts"
import { markName } from "./camera-simulator/sei.ts"
import { type Simulator, startSimulator } from "./camera-simulator/simulator.ts"
import { Viewer } from "./camera-simulator/viewer.ts"

interface Rtp {
  readonly marker: boolean
  readonly type: number
  readonly sequence: number
  readonly timestamp: number
  readonly payload: Buffer
}

const rtp = (bytes: Buffer): Rtp => ({
  marker: (bytes[1]! & 0x80) !== 0,
  type: bytes[1]! & 0x7f,
  sequence: bytes.readUInt16BE(2),
  timestamp: bytes.readUInt32BE(4),
  payload: bytes.subarray(12),
})

/** NAL units of the packets of whole pictures, after RFC 6184 and RFC 7798, written plainly. */
const unitsOf = (codec: VideoCodec, packets: ReadonlyArray<Rtp>): Array<Buffer> => {
  const units: Array<Buffer> = []
  let open: Array<Buffer> = []
  const header = codec === "h264" ? 1 : 2
  for (const { payload } of packets) {
    const type = codec === "h264" ? payload[0]! & 31 : (payload[0]! >> 1) & 63
    if (type === (codec === "h264" ? 24 : 48)) {
      for (let at = header; at < payload.length;) {
        const size = payload.readUInt16BE(at)
        units.push(payload.subarray(at + 2, at + 2 + size))
        at += 2 + size
      }
    } else if (type === (codec === "h264" ? 28 : 49)) {
      const fu = payload[header]!
      if ((fu & 0x80) !== 0) {
        open = [
          codec === "h264" ?
            Buffer.from([(payload[0]! & 0xe0) | (fu & 31)]) :
            Buffer.from([(payload[0]! & 0x81) | ((fu & 63) << 1), payload[1]!]),
        ]
      }
      open.push(payload.subarray(header + 1))
      if ((fu & 0x40) !== 0) units.push(Buffer.concat(open))
    } else units.push(payload)
  }
  return units
}

const split = (bytes: Buffer): Array<Rtp> => {
  const packets: Array<Rtp> = []
  for (let at = 0; at < bytes.length;) {
    const size = bytes.readUInt16BE(at + 2)
    packets.push(rtp(bytes.subarray(at + 4, at + 4 + size)))
    at += 4 + size
  }
  return packets
}

const stamp = { sequence: 65_534, timestamp: 2 ** 32 + 7, ssrc: 0xdeadbeef, name: markName("/cam/7/sub"), frame: 0 }

describe("packets", () => {
  it.each(["main-640x360-25.h264", "sub-320x180-10.h264", "main-640x360-25.h265", "bframes-320x180-25.h264"])(
    "carry every NAL unit of %s, and the mark besides",
    (file) => {
      const footage = loadVideo(findFootage(file))
      const templates = videoTemplates(footage, { payloadType: 96, inBand: true })
      expect(templates.length).toBe(footage.pictures.length)
      templates.forEach((template, i) => {
        const packets = split(stamped(template, { ...stamp, frame: i, sentMs: 1_700_000_000_123 }))
        const picture = footage.pictures[i]!
        const units = unitsOf(footage.codec, packets)
        const marks = units.flatMap((unit) => framesOf(unit))
        expect(marks).toEqual([{ name: "/cam/7/sub", frame: i, sentMs: 1_700_000_000_123 }])
        const original = [...picture.parameterSets, ...picture.units]
        expect(Buffer.concat(units.filter((unit) => framesOf(unit).length === 0))).toEqual(Buffer.concat(original))
        expect(packets.map((packet) => packet.marker)).toEqual(packets.map((_, at) => at === packets.length - 1))
        expect(packets.map((packet) => packet.sequence)).toEqual(packets.map((_, at) => (65_534 + at) % 65_536))
        expect(packets.every((packet) => packet.payload.length <= MTU && packet.timestamp === 7)).toBe(true)
      })
      expect(templates.filter((template) => template.key).length).toBe(footage.pictures.length / (footage.rate * 2))
    },
  )

  it("show B-frames in the order of their side file, each place once", () => {
    const { pictures } = loadVideo(findFootage("bframes-320x180-25.h264"))
    const shown = pictures.map((picture, sent) => sent + picture.delay)
    expect(shown.toSorted((a, b) => a - b)).toEqual(pictures.map((_, i) => i + Math.min(...shown)))
    expect(shown).not.toEqual(shown.toSorted((a, b) => a - b))
    expect(Math.min(...pictures.map((picture) => picture.delay))).toBe(0)
  })

  it("frame AAC with its header, and other audio as it is", () => {
    const aac = loadAudio(findFootage("tone-16000.aac"))
    const [first] = split(audioTemplates(aac, 97)[0]!.bytes)
    expect(first?.payload.readUInt16BE(0)).toBe(16)
    expect(first!.payload.readUInt16BE(2) >> 3).toBe(aac.units[0]!.length)
    expect(first?.payload.subarray(4)).toEqual(aac.units[0])
    expect(aac.config).toBe("1408")
    for (const [file, bytes] of [["tone-8000.pcmu", 160], ["tone-8000.pcma", 160]] as const) {
      expect(loadAudio(findFootage(file)).units.every((unit) => unit.length === bytes)).toBe(true)
    }
    expect(loadAudio(findFootage("tone-48000.opus")).units.length).toBeGreaterThan(190)
  })

  it("report the sender's clock as NTP time", () => {
    const bytes = senderReport({ ssrc: 5, wallMs: 1500.5, timestamp: 9, packets: 3, octets: 400, cname: "a@b" })
    expect(bytes.length % 4).toBe(0)
    expect([bytes[4], bytes[5], bytes.readUInt16BE(6)]).toEqual([0x80, 200, 6])
    expect(bytes.readUInt32BE(12)).toBe(2_208_988_801)
    expect(bytes.readUInt32BE(16) / 2 ** 32).toBeCloseTo(0.5005, 6)
    expect([bytes.readUInt32BE(20), bytes.readUInt32BE(24), bytes.readUInt32BE(28)]).toEqual([9, 3, 400])
    expect(bytes.length).toBe(4 + 28 + (bytes.readUInt16BE(34) + 1) * 4)
  })
})

describe("frame numbers", () => {
  it("tell what is missing and what is there twice", () => {
    const of = (...numbers: ReadonlyArray<number>) => coverage(numbers.map((frame) => ({ name: "", frame, sentMs: 0 })))
    expect(of()).toBeNull()
    expect(of(3, 4, 5)).toEqual({ count: 3, first: 3, last: 5, missing: [], repeated: [] })
    expect(of(3, 4, 8, 8, 7, 9)).toEqual({ count: 6, first: 3, last: 9, missing: [[5, 8]], repeated: [8, 7] })
  })

  it("finds NAL units behind both kinds of start code", () => {
    const stream = Buffer.from([0, 0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 2, 0, 0, 0, 1, 0x65, 3, 0])
    expect(nalUnits(stream).map((unit) => [...unit])).toEqual([[0x67, 1], [0x68, 2], [0x65, 3]])
  })
})

describe("a camera", () => {
  const login = { username: "admin", password: "swordfish" }
  const running: Array<Simulator> = []
  const viewers: Array<Viewer> = []
  afterEach(async () => {
    for (const viewer of viewers.splice(0)) viewer.close()
    for (const simulator of running.splice(0)) await simulator.close()
  })
  const start = async (options: Partial<CameraOptions> = {}) => {
    const simulator = await startSimulator({ cameras: [options] })
    running.push(simulator)
    return { simulator, camera: simulator.cameras[0]! }
  }
  const connect = async (url: string, credentials: typeof login | null = login) => {
    const viewer = await Viewer.connect(url, credentials)
    viewers.push(viewer)
    return viewer
  }
  const video = (viewer: Viewer) => viewer.packets.filter((packet) => packet.channel === 0).map((one) => rtp(one.bytes))
  const marks = (viewer: Viewer) => video(viewer).flatMap((packet) => framesOf(packet.payload))

  it("sends numbered frames and counts them as the viewer does", async () => {
    const { camera } = await start()
    const viewer = await connect(camera.url("main"))
    const reply = await viewer.play(2)
    expect(reply.status).toBe(200)
    await viewer.until(() => marks(viewer).length >= 30 && video(viewer).at(-1)!.marker)
    await viewer.ask("TEARDOWN")
    const seen = coverage(marks(viewer))!
    expect(seen.missing).toEqual([])
    expect(seen.repeated).toEqual([])
    const session = camera.report().sessions[0]!
    expect(session.endCause).toBe("teardown")
    expect(session.video).toMatchObject({ units: seen.count, first: seen.first, last: seen.last })
    expect(session.video?.packets).toBe(video(viewer).length)
    const sequences = video(viewer).map((packet) => packet.sequence)
    expect(sequences).toEqual(sequences.map((_, i) => (sequences[0]! + i) % 65_536))
    expect(reply.headers.get("rtp-info")).toContain(`seq=${sequences[0]};rtptime=${video(viewer)[0]!.timestamp}`)
    const audio = viewer.packets.filter((packet) => packet.channel === 2).map((packet) => rtp(packet.bytes))
    expect(audio.length).toBe(session.audio?.units)
    audio.slice(1).forEach((packet, i) => {
      expect((packet.timestamp - audio[i]!.timestamp) >>> 0).toBe(1024)
    })
    const reports = viewer.packets.filter((packet) => packet.channel % 2 === 1)
    expect(new Set(reports.map((packet) => packet.channel))).toEqual(new Set([1, 3]))
  })

  it("goes on with the same numbers for a second viewer, on other channels", async () => {
    const { camera } = await start({ startAtKey: true })
    const first = await connect(camera.url("sub"))
    await first.play()
    const second = await connect(camera.url("sub"))
    await second.play(1, 8)
    const own = () => second.packets.filter((packet) => packet.channel === 8).flatMap((one) => framesOf(one.bytes))
    await second.until(() => own().length >= 3)
    await first.until(() => marks(first).length >= 3 && marks(first).at(-1)!.frame >= own()[0]!.frame)
    expect(camera.report().mounts.find((mount) => mount.profile === "sub")?.viewers).toBe(2)
    expect(own()[0]!.frame % 20).toBe(0)
    expect(marks(first).map((mark) => mark.frame)).toContain(own()[0]!.frame)
  })

  it("spreads a picture's packets and keeps their order", async () => {
    const { camera } = await start({ pacing: "spread" })
    const viewer = await connect(camera.url("main"))
    await viewer.play(2)
    await viewer.until(() => marks(viewer).length >= 55)
    const sequences = video(viewer).map((packet) => packet.sequence)
    expect(sequences).toEqual(sequences.map((_, i) => (sequences[0]! + i) % 65_536))
    expect(coverage(marks(viewer))?.missing).toEqual([])
  })

  it("freezes and thaws: the connection stays, numbers are missing", async () => {
    const { camera } = await start()
    const viewer = await connect(camera.url("main"))
    await viewer.play()
    await viewer.until(() => marks(viewer).length >= 3)
    camera.freeze()
    expect((await viewer.ask("GET_PARAMETER"))?.status).toBe(200)
    const before = marks(viewer).length
    await new Promise((resolve) => setTimeout(resolve, 200))
    expect(marks(viewer).length).toBe(before)
    camera.thaw()
    await viewer.until(() => marks(viewer).length >= before + 3)
    const seen = coverage(marks(viewer))!
    expect(seen.missing.length).toBe(1)
    const sequences = video(viewer).map((packet) => packet.sequence)
    expect(sequences).toEqual(sequences.map((_, i) => (sequences[0]! + i) % 65_536))
  })

  it("is cut and comes back on the same port", async () => {
    const { camera } = await start()
    const url = camera.url("main")
    const viewer = await connect(url)
    await viewer.play()
    await camera.cut()
    await expect(viewer.until(() => false)).rejects.toThrow("closed")
    await expect(connect(url)).rejects.toThrow("ECONNREFUSED")
    await camera.mend()
    expect(camera.url("main")).toBe(url)
    const again = await connect(url)
    expect((await again.play()).status).toBe(200)
    await again.until(() => marks(again).length >= 1)
    expect(camera.report().sessions[0]?.endCause).toBe("cut")
  })

  it("drops packets and names the frames they were of", async () => {
    const { camera } = await start()
    const viewer = await connect(camera.url("main"))
    await viewer.play()
    camera.harm({ dropPercent: 20 })
    await viewer.until(() => camera.report().sessions[0]!.harmedFrames.length >= 5)
    camera.harm({})
    await viewer.ask("TEARDOWN")
    const session = camera.report().sessions[0]!
    expect(session.droppedPackets).toBeGreaterThan(0)
    expect(video(viewer).length).toBe(session.video!.packets - session.droppedPackets)
    const got = new Set(marks(viewer).map((mark) => mark.frame))
    for (let frame = session.video!.first!; frame <= session.video!.last!; frame++) {
      if (!session.harmedFrames.includes(frame)) expect(got.has(frame)).toBe(true)
    }
  })

  it("reorders without losing, corrupts without moving", async () => {
    const { camera } = await start()
    const viewer = await connect(camera.url("main"))
    await viewer.play()
    camera.harm({ reorderPercent: 20 })
    await viewer.until(() => camera.report().sessions[0]!.harmedPackets >= 5)
    camera.harm({})
    const reached = marks(viewer).length
    await viewer.until(() => marks(viewer).length >= reached + 3)
    const sequences = video(viewer).map((packet) => packet.sequence)
    const from = sequences[0]!
    const places = sequences.map((sequence) => (sequence - from + 65_536 + 10) % 65_536)
    expect(places).not.toEqual(places.toSorted((a, b) => a - b))
    expect(places.toSorted((a, b) => a - b)).toEqual(places.map((_, i) => i + Math.min(...places)))
    camera.harm({ corruptPercent: 100 })
    const harmed = camera.report().sessions[0]!.harmedPackets
    await viewer.until(() => camera.report().sessions[0]!.harmedPackets >= harmed + 5)
    expect(camera.report().sessions[0]!.harmedFrames.length).toBeGreaterThan(0)
  })

  it("writes garbage between packets", async () => {
    const { camera } = await start()
    const viewer = await connect(camera.url("main"))
    await viewer.play()
    camera.harm({ garbagePercent: 100 })
    const readable = video(viewer).length
    await viewer.until(() => camera.report().sessions[0]!.harmedPackets >= 20)
    expect(video(viewer).length).toBeLessThan(readable + 5)
    expect(viewer.closed).toBe(false)
  })

  it("changes its picture size at a key frame, numbers and time running on", async () => {
    const { camera } = await start({ profiles: [{ name: "main", video: "sub-320x180-10.h264", audio: "none" }] })
    const viewer = await connect(camera.url("main"))
    await viewer.play()
    await viewer.until(() => marks(viewer).length >= 2)
    const sps = () =>
      new Set(
        unitsOf("h264", video(viewer)).filter((unit) => (unit[0]! & 31) === 7).map((unit) => unit.toString("hex")),
      )
    camera.show("main", "wide-800x352-25.h264")
    const wide = loadVideo(findFootage("wide-800x352-25.h264")).parameterSets[0]!.toString("hex")
    await viewer.until(() => sps().has(wide) && marks(viewer).length >= 8)
    expect(coverage(marks(viewer))?.missing).toEqual([])
    const times = [...new Set(video(viewer).map((packet) => packet.timestamp))]
    const steps = times.slice(1).map((time, i) => (time - times[i]!) >>> 0)
    expect(new Set(steps)).toEqual(new Set([9000, 3600]))
    expect(() => camera.show("main", "main-640x360-25.h265")).toThrow("codec")
  })

  it("wraps its timestamps and jumps when told", async () => {
    const { camera } = await start({ wrapAfterSeconds: 1 })
    const viewer = await connect(camera.url("main"))
    await viewer.play()
    const times = () => [...new Set(video(viewer).map((packet) => packet.timestamp))]
    await viewer.until(() => times().some((time) => time < 900_000))
    expect(times()[0]).toBeGreaterThan(2 ** 31)
    expect(times().slice(1).every((time, i) => ((time - times()[i]!) >>> 0) === 3600)).toBe(true)
    const before = times().length
    camera.jumpTimestamps(100)
    await viewer.until(() => times().length > before + 1)
    const steps = times().slice(1).map((time, i) => (time - times()[i]!) >>> 0)
    expect(steps.filter((step) => step !== 3600)).toEqual([9_003_600])
  })

  it("tells another time after its clock jumped", async () => {
    const { camera } = await start()
    camera.jumpClock(-3_600_000)
    const viewer = await connect(camera.url("sub"))
    await viewer.play()
    await viewer.until(() => viewer.packets.some((packet) => packet.channel === 1) && marks(viewer).length >= 1)
    const report = viewer.packets.find((packet) => packet.channel === 1)!.bytes
    const wallMs = (report.readUInt32BE(8) - 2_208_988_800) * 1000 + (report.readUInt32BE(12) / 2 ** 32) * 1000
    expect(Math.round((wallMs - marks(viewer)[0]!.sentMs) / 60_000)).toBe(-60)
  })

  it("refuses a second session, a wrong password and an unknown path", async () => {
    const { camera } = await start()
    camera.limitSessions(1)
    const first = await connect(camera.url("main"))
    expect((await first.play()).status).toBe(200)
    const second = await connect(camera.url("sub"))
    expect((await second.play()).status).toBe(453)
    const stranger = await connect(camera.url("main"), { ...login, password: "wrong" })
    expect((await stranger.play()).status).toBe(401)
    const lost = await connect(`${camera.url("main")}/nowhere`)
    expect((await lost.play()).status).toBe(404)
    camera.rejectLogin(true)
    const late = await connect(camera.url("main"))
    expect((await late.play()).status).toBe(401)
    await camera.restore()
    const well = await connect(camera.url("main"))
    expect((await well.play()).status).toBe(200)
  })

  it("asks for a fresh nonce when one is used up", async () => {
    const { camera } = await start({ nonceUses: 2 })
    const viewer = await connect(camera.url("main"))
    expect((await viewer.play(2)).status).toBe(200)
  })

  it("ends a session that is not kept alive, and leaves one that is", async () => {
    const { camera } = await start({ sessionTimeoutSeconds: 1, getParameter: false })
    const kept = await connect(camera.url("sub"))
    const left = await connect(camera.url("sub"))
    await kept.play()
    await left.play()
    expect((await kept.ask("GET_PARAMETER"))?.status).toBe(501)
    while (!left.closed) {
      expect((await kept.ask("OPTIONS"))?.headers.get("public")).not.toContain("GET_PARAMETER")
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
    expect(kept.closed).toBe(false)
    expect(camera.report().sessions.map((session) => session.endCause).toSorted()).toEqual(["", "timeout"])
  })

  it("obeys its control port", async () => {
    const { camera, simulator } = await start()
    const post = async (verb: string, body: unknown) =>
      await fetch(`${simulator.controlUrl}/cameras/0/${verb}`, { method: "POST", body: JSON.stringify(body) })
    expect(await (await post("freeze", {})).json()).toMatchObject({ frozen: true })
    expect(await (await post("thaw", {})).json()).toMatchObject({ frozen: false })
    expect(await (await post("harm", { dropPercent: 5 })).json()).toMatchObject({ harm: { dropPercent: 5 } })
    expect(await (await post("cut", {})).json()).toMatchObject({ cut: true })
    expect(await (await post("restore", {})).json()).toMatchObject({ cut: false, harm: { dropPercent: 0 } })
    expect((await post("show", { profile: "main", file: "nothing-1x1-1.h264" })).status).toBe(400)
    expect((await post("slow", { milliseconds: "long" })).status).toBe(400)
    expect((await post("explode", {})).status).toBe(404)
    expect((await fetch(`${simulator.controlUrl}/cameras/9`)).status).toBe(404)
    const all = await (await fetch(simulator.controlUrl)).json()
    expect(all).toEqual({ cameras: [JSON.parse(JSON.stringify(camera.report()))] })
  })
})
