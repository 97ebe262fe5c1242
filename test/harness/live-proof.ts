/**
 * Live pictures: how soon the first one is there, how old they are when they are seen, and that no viewer harms a recording.
 *
 * Invariants
 * 1. A picture's age is from the camera's own stamp in it to Chromium's screen, both by this machine's clock.
 * 2. Two per cent of loss freeze nothing.
 * 3. While harm is done, the recording has no gap, and a viewer who does nothing wrong sees every picture.
 */
import { Effect } from "effect"
import { existsSync, mkdtempSync, rmSync } from "node:fs"
import { loadavg, tmpdir } from "node:os"
import * as path from "node:path"
import { random } from "../media/random.ts"
import { client } from "../media/webrtc-peers.ts"
import { Watching } from "../media/webrtc-watching.ts"
import { record, type Recorded, startCameras } from "./cameras.ts"
import { type HalfOpen, rtspStrangers } from "./half-open.ts"
import { doHarm } from "./hostile-viewers.ts"
import { readLive } from "./live-page.ts"
import { isRtp, lossyRelay } from "./lossy-relay.ts"
import { makeNode, type NodeProcess, sleep } from "./node-process.ts"
import type { Report } from "./report.ts"
import { gapsOf, lookAt, watch } from "./sight.ts"
import { framesOf, gapsIn } from "./whep-frames.ts"
import { type OpenWhep, type WhepSeen, whepSteps, withChromium } from "./whep-page.ts"

export interface LiveProofOptions {
  /** How often the first picture is waited for; 0: Chromium is not asked. */
  readonly firstPictures: number
  /** How long ages are measured, each way; 0: the first pictures are all that Chromium is asked for. */
  readonly watchSeconds: number
  readonly hostileSeconds: number
  readonly halfOpen: number
  /** Whether it is waited for until everybody who has gone is noticed, up to 40 s. */
  readonly patient: boolean
}

interface Path {
  readonly whepUrl: string
  readonly liveHlsUrl: string
  readonly rtspUrl: string
  readonly token: string
}

const pathOf = async (node: NodeProcess, { streamId }: Recorded): Promise<Path> =>
  (await node.callSoon("GET", `/camera/api/v1/streams/${streamId}/media-path`)) as Path

/** Median and 95th percentile. */
const figures = (values: ReadonlyArray<number>): string => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) =>
    Math.round(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN)
  return `median ${at(0.5)} ms, 95 % ${at(0.95)} ms, of ${sorted.length}`
}

/** Two packets of a hundred are lost on their way. */
const lossy = (node: NodeProcess, recorded: Recorded, open: OpenWhep, options: LiveProofOptions, report: Report) =>
  Effect.runPromise(Effect.scoped(Effect.gen(function*() {
    const { token, whepUrl } = yield* Effect.promise(() => pathOf(node, recorded))
    const { offer } = yield* client({ direction: "RecvOnly", video: "h264" })
    const headers = { "content-type": "application/sdp", authorization: `Bearer ${token}` }
    const answer = yield* Effect.promise(async () =>
      await (await fetch(node.url + whepUrl, { method: "POST", headers, body: offer })).text()
    )
    const relay = yield* lossyRelay(Number(/^a=candidate:1 1 udp \d+ \S+ (\d+)/m.exec(answer)?.[1]))
    const chance = random(1)
    relay.lose = (bytes) => isRtp(bytes) && chance(100) < 2
    const seen = yield* Effect.promise(async () => {
      const page = await open({ base: node.url, whepUrl, token, through: relay.port })
      return await page.until(() => false, options.watchSeconds * 1000)
    })
    report.say(
      `WHEP with 2 % of packets lost (${relay.lost}): ${seen.decoded} pictures decoded, ${seen.freezes} freezes, ${seen.nacks} questions`,
    )
    report.check(seen.freezes === 0, `2 % loss: ${seen.freezes} freezes`)
    report.check(gapsIn(seen.frames).length === 0, `2 % loss: missing ${gapsIn(seen.frames).join()}`)
  })))

const measure = async (
  node: NodeProcess,
  recorded: Recorded,
  options: LiveProofOptions,
  report: Report,
): Promise<void> => {
  report.say(`load ${loadavg()[0]!.toFixed(1)}`)
  await withChromium(async (open) => {
    const firsts: Array<WhepSeen["steps"]> = []
    for (let run = 0; run < options.firstPictures; run++) {
      const { token, whepUrl } = await pathOf(node, recorded)
      const page = await open({ base: node.url, whepUrl, token })
      const begun = await page.until(({ firstMs }) => firstMs !== null, 30_000)
      report.check(begun.firstMs !== null, `WHEP: no first picture: ${begun.errors.join()}`)
      if (begun.firstMs !== null) firsts.push(begun.steps)
      if (run < options.firstPictures - 1 || options.watchSeconds === 0) {
        // Whoever has seen his first picture must not slow down the next one.
        await page.close()
        continue
      }
      const seen = await page.until(() => false, options.watchSeconds * 1000)
      report.say(`WHEP, camera to screen: ${figures(seen.ages)}`)
      report.check(gapsIn(seen.frames).length === 0, `WHEP: missing ${gapsIn(seen.frames).join()}`)
      report.check(seen.ages.length > options.watchSeconds * 5, `WHEP: only ${seen.ages.length} pictures were matched`)
      report.check(seen.freezes === 0, `WHEP: ${seen.freezes} freezes`)
    }
    report.say(`WHEP, click to first picture: ${figures(firsts.flatMap(({ shown = [] }) => shown))}`)
    for (const [index, step] of whepSteps.entries()) {
      const before = whepSteps[index - 1]
      const each = firsts.flatMap((one) =>
        (one[step] ?? Number.NaN) - (before === undefined ? 0 : one[before] ?? Number.NaN)
      )
      report.say(`  of that, to "${step}": ${figures(each.filter(Number.isFinite))}`)
    }
    if (options.watchSeconds > 0) await lossy(node, recorded, open, options, report)
  })
  if (options.watchSeconds === 0) return
  const hls = await readLive(node.url + (await pathOf(node, recorded)).liveHlsUrl, 30_000, options.watchSeconds * 25)
  report.say(`LL-HLS, camera to screen: ${figures(hls.ages)}`)
  report.check(hls.ages.length > 0, `LL-HLS: ${hls.errors.join()}`)
}

/** Somebody who does nothing wrong, while harm is done. */
const watchWell = (node: NodeProcess, recorded: Recorded, during: () => Promise<void>) =>
  Effect.runPromise(Effect.scoped(Effect.gen(function*() {
    const browser = yield* client({ direction: "RecvOnly", video: "h264" })
    const { token, whepUrl } = yield* Effect.promise(() => pathOf(node, recorded))
    const watching = new Watching(browser.video!, null)
    yield* Effect.promise(async () => {
      const headers = { "content-type": "application/sdp", authorization: `Bearer ${token}` }
      const response = await fetch(node.url + whepUrl, { method: "POST", headers, body: browser.offer })
      browser.connection.setRemoteDescription(await response.text(), "answer")
      for (let i = 0; i < 600 && watching.pictures.length === 0; i++) await sleep(50)
    })
    const mend = setInterval(() => {
      watching.askAgain()
      watching.report()
    }, 200)
    yield* Effect.promise(during)
    yield* Effect.sleep(1000)
    clearInterval(mend)
    return framesOf(watching)
  })))

/** Each of them was tried and told; beyond the bound those who wait longest make room, and whoever speaks is heard. */
const judgeHalfOpen = ({ beyond, standing, tried }: HalfOpen, report: Report): void => {
  const sum = ({ http, offers, rtsp }: HalfOpen["tried"]) => rtsp + http + offers
  report.say(
    `half-open: ${sum(tried)} tried, ${sum(standing)} stood at once: ${standing.rtsp} of ${tried.rtsp} by RTSP, ` +
      `${standing.http} of ${tried.http} by HTTP, ${standing.offers} of ${tried.offers} answered offers that nobody came for`,
  )
  report.say(
    `half-open beyond the bound: of ${beyond.tried} by RTSP ${beyond.standing} stood (the bound: ${rtspStrangers}), ` +
      `${beyond.ended} were ended; a new player was answered ${beyond.newcomer}, HTTP ${beyond.http}`,
  )
  report.check(standing.http === tried.http, "half-open requests by HTTP were not held")
  report.check(standing.offers === tried.offers, "offers were refused")
  report.check(standing.rtsp === Math.min(tried.rtsp, rtspStrangers), "half-open connections by RTSP: not the bound")
  report.check(beyond.standing <= rtspStrangers, `more than ${rtspStrangers} strangers by RTSP`)
  report.check(beyond.standing + beyond.ended === beyond.tried, "a connection by RTSP was not ended properly")
  report.check(beyond.newcomer === 200 && beyond.http === 200, "whoever came last was kept out")
}

const suffer = async (
  node: NodeProcess,
  recorded: Recorded,
  options: LiveProofOptions,
  report: Report,
): Promise<void> => {
  const sinceMs = Date.now()
  const path = await pathOf(node, recorded)
  const { offer } = await Effect.runPromise(Effect.scoped(client({ direction: "RecvOnly", video: "h264" })))
  const headers = { "content-type": "application/sdp", authorization: `Bearer ${path.token}` }
  const post = async (body: string) => {
    const response = await fetch(node.url + path.whepUrl, { method: "POST", headers, body })
    return { status: response.status, text: await response.text() }
  }
  const answer = (await post(offer)).text
  const frames = await watchWell(node, recorded, async () => {
    const rtsp = new URL(path.rtspUrl)
    const harm = await doHarm(
      {
        httpPort: Number(new URL(node.url).port),
        rtspPort: Number(rtsp.port),
        webRtcPort: Number(/^a=candidate:1 1 udp \d+ \S+ (\d+)/m.exec(answer)?.[1]),
        rtspPath: `${rtsp.pathname}${rtsp.search}`,
        post: async (body) => (await post(body)).status,
        offer,
      },
      options.hostileSeconds,
      options.halfOpen,
    )
    report.say(
      `harm: one byte a second; ${harm.refusedOffers} offers refused, ${harm.nonsense} RTSP requests and ` +
        `${harm.datagrams} datagrams of nonsense`,
    )
    judgeHalfOpen(harm.halfOpen, report)
    report.check(harm.refusedOffers > 0, "no offer was refused")
  })
  report.say(`a good viewer saw ${frames.length} pictures meanwhile`)
  report.check(frames.length > options.hostileSeconds * 20, "the good viewer saw too little")
  report.check(gapsIn(frames).length === 0, `the good viewer missed ${gapsIn(frames).slice(0, 5).join()}`)
  const { state } = await lookAt(node, recorded)
  report.check(state === "recording", `the recording is ${state}`)
  const gaps = (await gapsOf(node, recorded)).filter(({ endMs }) => endMs === null || endMs > sinceMs)
  report.check(gaps.length === 0, `gaps in the recording: ${JSON.stringify(gaps)}`)
  if (!options.patient) return
  const left = async () =>
    ((await node.callSoon("GET", "/camera/api/v1/media-proxy/webrtc/sessions")) as {
      readonly items: ReadonlyArray<unknown>
    })
      .items.length
  for (let i = 0; i < 80 && (await left()) > 0; i++) await sleep(500)
  report.check((await left()) === 0, "WebRTC sessions that nobody came for were not ended")
}

export const proveLive = async (report: Report, options: LiveProofOptions): Promise<void> => {
  const folder = mkdtempSync(path.join(tmpdir(), "nightjar-live-"))
  const cameras = await startCameras(1)
  const node = await makeNode(folder, { NIGHTJAR_WEBRTC_UDP_PORTS: "0", NIGHTJAR_RTSP_PORT: "0" })
  try {
    await node.start()
    const { password, urls, username } = cameras
    const recorded = await record(node, { name: "Front door", sourceUrl: urls[0]!, username, password })
    await watch(() => lookAt(node, recorded), ({ state }) => state === "recording", 60_000)
    if (options.firstPictures > 0 && existsSync("/usr/bin/chromium")) await measure(node, recorded, options, report)
    if (options.hostileSeconds > 0) await suffer(node, recorded, options, report)
  } finally {
    await node.stop()
    await cameras.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
