/**
 * A phone, played by Chromium with its made-up camera: registered by its page, it publishes; what was recorded of it plays by a foreign
 * reader; it comes back by itself, is replaced by itself, and goes for good when it is unregistered.
 */
import type { MobileTicket } from "#schema/camera-mobile.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import type { Browser, Page } from "playwright-core"
import { launchWholeChromium, withoutChromium } from "../harness/chromium.ts"
import { eventually, password, type Running, signIn, startNode } from "./node.ts"

/** Where nobody answers: what is near is found without it. */
const iceServers = "turn:me:s%22crit@127.0.0.1:9"
const run = promisify(execFile)
const mobile = "/camera/api/v1/cameras/mobile"

const launch = (): Promise<Browser> =>
  launchWholeChromium(
    "--use-fake-device-for-media-stream",
    "--use-fake-ui-for-media-stream",
    "--allow-loopback-in-peer-connection",
  )

const post = (address: string, path: string, body: unknown, headers: Record<string, string> = {}) =>
  fetch(`${address}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  })

/** As the administrator. */
const asker = async (address: string) => {
  const login = await post(address, "/auth/api/v1/auth/login", { username: "admin", password })
  const { accessToken } = await login.json() as { readonly accessToken: string }
  const authorization = `Bearer ${accessToken}`
  return async <A>(method: "GET" | "POST", path: string, body?: unknown): Promise<A> => {
    const answer = method === "GET" ?
      await fetch(`${address}${path}`, { headers: { authorization } }) :
      await post(address, path, body, { authorization })
    assert.isTrue(answer.ok, `${method} ${path}: ${answer.status}`)
    return await answer.json() as A
  }
}
type Ask = Awaited<ReturnType<typeof asker>>

type Ticket = typeof MobileTicket.Type

/** What the dashboard shows whoever adds a phone. */
const prepare = async (page: Page, { address }: Running, name: string): Promise<Ticket> => {
  await signIn(page, address)
  await page.goto(`${address}/#/cameras`)
  await page.getByRole("button", { name: "Add a phone" }).click()
  await page.getByRole("textbox", { name: "Name" }).fill(name)
  const [answer] = await Promise.all([
    page.waitForResponse((response) => response.url().endsWith(`${mobile}/prepare`)),
    page.getByRole("button", { name: "Show the code" }).click(),
  ])
  await page.getByRole("img", { name: "QR code of the phone's page" }).waitFor()
  await page.getByText("waiting for the phone").waitFor()
  return await answer.json() as Ticket
}
const status = ({ client }: Running, deviceUuid: Ticket["deviceUuid"]) =>
  Effect.runPromise(client.cameraMobile.mobileStatus({ query: { deviceUuid } }))
const cameraOf = async ({ client }: Running, name: string) => {
  const { items } = await Effect.runPromise(client.camera.searchCameras({ query: { q: name } }))
  return items[0]
}

const phoneAt = async (browser: Browser, url: string): Promise<Page> => {
  const page = await (await browser.newContext({ permissions: ["camera", "microphone"] })).newPage()
  page.setDefaultTimeout(60_000)
  await page.goto(url)
  return page
}

/** What nobody gets by a wrong code, a used one, or a wrong secret. */
const refusals = async (address: string, used: string) => {
  const again = await post(address, `${mobile}/claim`, { claimCode: used })
  assert.strictEqual(again.status, 409)
  assert.strictEqual((await again.json() as { code: string }).code, "claim_code_invalid")
  for (let wrong = 0; wrong < 9; wrong++) await post(address, `${mobile}/claim`, { claimCode: `WRNG-${wrong}` })
  const braked = await post(address, `${mobile}/claim`, { claimCode: used })
  assert.strictEqual(braked.status, 429)
  assert.isAbove(Number(braked.headers.get("retry-after")), 0)
  const sdp = { "content-type": "application/sdp" }
  assert.strictEqual((await post(address, "/camera/api/v1/mobile/whip", "v=0", sdp)).status, 401)
  const wrong = { ...sdp, authorization: `Bearer ${"A".repeat(43)}` }
  assert.strictEqual((await post(address, "/camera/api/v1/mobile/whip", "v=0", wrong)).status, 401)
}

/** Registers, sends, goes away and comes back; with a recording of it all. */
const scene = async (node: Running, browser: Browser, ask: Ask) => {
  const dashboard = await phoneAt(browser, node.address)
  const ticket = await prepare(dashboard, node, "Pocket camera")
  assert.strictEqual(ticket.url, `${node.address}/phone#${ticket.claimCode}`)
  assert.match(ticket.claimCode, /^[0-9A-Z]{4}-[0-9A-Z]{4}-[0-9A-Z]{4}$/)
  assert.include(ticket.qrSvg, "<svg")
  assert.strictEqual((await status(node, ticket.deviceUuid)).state, "prepared")

  const page = await phoneAt(browser, ticket.url)
  await page.getByRole("button", { name: "Register this phone" }).click()
  await page.getByText("Not sending").waitFor()
  assert.notInclude(page.url(), ticket.claimCode)
  const claimed = await status(node, ticket.deviceUuid)
  assert.deepInclude(claimed, { state: "claimed", publishing: false })
  const before = (await cameraOf(node, "pocket"))!
  assert.deepInclude(before, { driver: "mobile", host: null, manufacturer: null })
  await eventually("that it is waited for", async () => (await cameraOf(node, "pocket"))?.status === "offline")

  const channelId = before.channels[0]!.id
  const moving = node.client.camera.updateStream({
    headers: {},
    params: { stream_id: before.channels[0]!.streams[0]!.id },
    payload: { sourceUrl: "rtsp://192.0.2.1/" },
  })
  assert.strictEqual((await Effect.runPromise(Effect.flip(moving)))._tag, "InvalidInput")
  const payload = { channelId, mode: "continuous" as const, enabled: true, retentionDays: 1 }
  const { body: recording } = await Effect.runPromise(node.client.record.createRecording({ headers: {}, payload }))
  const [answered] = await Promise.all([
    page.waitForResponse((response) => response.url().endsWith("/mobile/whip")),
    page.getByRole("button", { name: "Start sending" }).click(),
  ])
  assert.strictEqual(
    await answered.headerValue("link"),
    `<turn:127.0.0.1:9>; rel="ice-server"; username="me"; credential="s\\"crit"; credential-type="password"`,
  )
  await page.getByText("Sending", { exact: true }).waitFor()
  const online = await eventually("pictures", async () => {
    const camera = await cameraOf(node, "pocket")
    return camera?.status === "online" && camera.channels[0]!.streams[0]!.codec !== null ? camera : null
  })
  assert.deepInclude(online.channels[0]!.streams[0], { codec: "h264", audioCodec: "opus" })
  assert.isTrue((await status(node, ticket.deviceUuid)).publishing)
  await dashboard.getByText("sending", { exact: true }).waitFor()

  // The page is opened anew, as after a telephone that was put away: the new session replaces the old one.
  await page.reload()
  await eventually("the gap of a phone that went", async () => {
    const [start, end] = [new Date(Date.now() - 300_000), new Date()].map((at) => at.toISOString())
    const path = `/search/api/v1/recordings/${recording.recordingToken}/timeline?start=${start}&end=${end}`
    const { gaps } = await ask<{ readonly gaps: ReadonlyArray<{ readonly cause: string }> }>("GET", path)
    return gaps.some(({ cause }) => cause === "publisher_away")
  })
  await page.getByRole("button", { name: "Start sending" }).click()
  await page.getByText("Sending", { exact: true }).waitFor()
  await eventually("pictures again", async () => (await cameraOf(node, "pocket"))?.status === "online")
  return { page, ticket, recording }
}

/** The newest footage by ffprobe: codecs and how many pictures it decoded. */
const played = async (node: Running, recordingToken: string, ask: Ask) => {
  const [start, end] = [new Date(Date.now() - 120_000), new Date()].map((at) => at.toISOString())
  const { uri } = await ask<{ readonly uri: string }>("POST", "/replay/api/v1/replay/uri", {
    recordingToken,
    start,
    end,
  })
  const args = ["-v", "error", "-count_frames", "-show_entries", "stream=codec_name,nb_read_frames", "-of", "json"]
  const { stdout } = await run("ffprobe", [...args, `${node.address}${uri}`], { timeout: 60_000 })
  const { streams } = JSON.parse(stdout) as {
    readonly streams: ReadonlyArray<{ readonly codec_name?: string; readonly nb_read_frames?: string }>
  }
  return new Map(streams.map((one) => [one.codec_name, Number(one.nb_read_frames)]))
}

/** Live, as of any other camera: by RTSP to a foreign reader; WebRTC and HLS are offered. */
const watched = async (camera: NonNullable<Awaited<ReturnType<typeof cameraOf>>>, ask: Ask) => {
  const { id } = camera.channels[0]!.streams[0]!
  const path = await ask<Record<"rtspUrl" | "whepUrl" | "liveHlsUrl", string | null>>(
    "GET",
    `/camera/api/v1/streams/${id}/media-path`,
  )
  assert.isNotNull(path.whepUrl)
  assert.isNotNull(path.liveHlsUrl)
  const args = ["-v", "error", "-rtsp_transport", "tcp", "-show_entries", "stream=codec_name", "-of", "csv=p=0"]
  const { stdout } = await run("ffprobe", [...args, path.rtspUrl!], { timeout: 60_000 })
  assert.sameMembers(stdout.trim().split("\n"), ["h264", "opus"])
}

describe.skipIf(withoutChromium !== "")(
  `a phone${withoutChromium === "" ? "" : ` (skipped: ${withoutChromium})`}`,
  () => {
    it("is registered, publishes, is recorded, comes back and is unregistered", async () => {
      const node = await startNode({
        simulator: ["--cameras", "1"],
        settings: { NIGHTJAR_RTSP_PORT: "0", NIGHTJAR_WEBRTC_UDP_PORTS: "0", NIGHTJAR_ICE_SERVERS: iceServers },
      })
      const browser = await launch()
      try {
        const ask = await asker(node.address)
        const { page, recording, ticket } = await scene(node, browser, ask)
        const pictures = await eventually("footage that plays", async () => {
          const found = await played(node, recording.recordingToken, ask)
          return (found.get("h264") ?? 0) > 50 && (found.get("opus") ?? 0) > 50 ? found : null
        })
        assert.isAbove(pictures.get("h264")!, 50)

        await watched((await cameraOf(node, "pocket"))!, ask)
        await refusals(node.address, ticket.claimCode)
        const params = { device_uuid: ticket.deviceUuid }
        await Effect.runPromise(node.client.cameraMobile.unregisterMobile({ params }))
        await page.getByText("Not registered any more").waitFor()
        // It is recorded: the camera stays with its footage, and nothing comes any more.
        await eventually("an end", async () => (await cameraOf(node, "pocket"))?.status === "offline")
        await Effect.runPromise(
          Effect.flip(node.client.cameraMobile.mobileStatus({ query: { deviceUuid: ticket.deviceUuid } })),
        )
      } finally {
        await browser.close()
        await node.stop()
      }
    }, 400_000)
  },
)
