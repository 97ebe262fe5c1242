/**
 * The page of a camera and the wizard that adds some, in Debian's Chromium, on one node with ONVIF cameras that remember what they
 * are told. One visit, in order: from an empty node to cameras that record, then everything that one of them can be told.
 */
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { readFile } from "node:fs/promises"
import type { Browser, Page } from "playwright-core"
import { withoutChromium } from "../harness/chromium.ts"
import type { SimulatedDevice } from "../onvif-simulator/device.ts"
import { faultsOf } from "./axe.ts"
import { type CameraScene, fitsPhone, longName, startScene } from "./camera-scene.ts"
import { eventually, type Running, signIn } from "./node.ts"

let scene: CameraScene
let node: Running
let browser: Browser
let page: Page
let yard: SimulatedDevice

const go = (where: string) => page.goto(`${node.address}/#/${where}`)
const part = (name: string) => page.getByRole("link", { name, exact: true }).click()
const region = (name: string) => page.getByRole("region", { name, exact: true })
const open = async (name: string) => {
  await go("cameras")
  await page.getByRole("link", { name, exact: true }).click()
  await page.getByRole("heading", { name, level: 1 }).waitFor()
}
const narrow = (where: string) => fitsPhone(page, where)

describe.skipIf(withoutChromium)(
  `cameras in the dashboard${withoutChromium && ` (skipped: ${withoutChromium})`}`,
  () => {
    beforeAll(async () => {
      scene = await startScene()
      ;({ browser, node, page, yard } = scene)
    })

    afterAll(async () => {
      await scene?.stop()
    })

    it("leads from nothing to cameras that record", async () => {
      await go("live")
      await page.getByRole("link", { name: "Add a camera" }).click()
      await page.getByRole("heading", { name: "Add cameras" }).waitFor()
      await go("cameras")
      await page.getByRole("link", { name: "Find cameras" }).click()
      await page.getByText(longName).waitFor()
      await page.getByText(`127.0.0.1:${yard.port}`).waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("finding")
      const address = page.getByLabel(/^Address of a camera/)
      await address.fill("ftp://nothing")
      await page.getByRole("button", { name: "Put on the list" }).click()
      await page.getByText("That is no address").waitFor()
      await address.fill(node.cameras[0]!.streams[0]!.url)
      await page.getByLabel(/^RTSP address of its sub-stream/).fill(node.cameras[0]!.streams[1]!.url)
      await page.getByRole("button", { name: "Put on the list" }).click()
      await page.getByLabel("All 3").check()
      await page.getByRole("button", { name: "Go on with 3 cameras" }).click()

      await page.getByLabel("User name", { exact: true }).fill("admin")
      await page.getByLabel("Password", { exact: true }).fill("swordfish")
      await page.getByRole("button", { name: "Add and try" }).click()
      // Two take it; the third one says that it does not, and is asked for its own.
      await page.getByText("3 of 3 asked, 2 added").waitFor()
      await page.getByRole("button", { name: "Go on with 2 cameras" }).waitFor()
      const refused = page.getByRole("listitem", { name: longName })
      await refused.getByText("The camera refused the user name or the password").waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("passwords")
      await page.getByLabel(`Password of ${longName}`).fill("other-fish")
      await page.getByRole("button", { name: "Try again" }).click()
      await page.getByRole("button", { name: "Go on with 3 cameras" }).click()

      const stream = page.getByRole("listitem").filter({ hasText: node.cameras[0]!.streams[0]!.url })
      await stream.getByLabel(/^Name/).fill("By its stream")
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("names")
      await page.getByRole("button", { name: "Record", exact: true }).click()
      for (const name of ["Yard", longName, "By its stream"]) {
        const tile = page.getByRole("article", { name })
        await eventually("a picture", () =>
          tile.locator("video").evaluate((one) => (one as HTMLVideoElement).videoWidth > 0))
      }
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("pictures")
      await go("cameras")
      await page.getByRole("row", { name: /By its stream.*recording/ }).waitFor()
      await page.getByRole("link", { name: "Add cameras" }).click()
      await page.getByRole("link", { name: "already added" }).first().waitFor()
    })

    it("exports the cameras, says what an import would do, and does it", async () => {
      await go("cameras")
      await page.getByRole("button", { name: "Export…" }).click()
      const dialog = page.getByRole("dialog", { name: "Export cameras" })
      await dialog.getByLabel(/^Passphrase/).fill("a passphrase — ä")
      await dialog.getByLabel(/^The same again/).fill("a passphrase")
      await dialog.getByText("This is not the same").waitFor()
      assert.isTrue(await dialog.getByRole("button", { name: "Export", exact: true }).isDisabled())
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("export")
      await dialog.getByLabel(/^The same again/).fill("a passphrase — ä")
      const [download] = await Promise.all([
        page.waitForEvent("download"),
        dialog.getByRole("button", { name: "Export", exact: true }).click(),
      ])
      assert.match(download.suggestedFilename(), /^cameras-\d{4}-\d\d-\d\d\.json$/)
      const document = JSON.parse(await readFile(await download.path(), "utf8")) as {
        readonly cameras: ReadonlyArray<object>
      }
      assert.lengthOf(document.cameras, 3)
      const [first] = document.cameras
      // One that is new, one that cannot be read, beside those that are here.
      const elsewhere = {
        ...first,
        id: "01890000-0000-7000-8000-00000000abcd",
        name: "From the backup",
        sealedPassword: null,
        hasPassword: false,
        channels: [],
      }
      const cameras = [...document.cameras, elsewhere, { name: "Broken" }]

      await page.getByRole("link", { name: "Import…" }).click()
      const file = page.getByLabel("File of an export")
      await file.setInputFiles({ name: "notes.json", mimeType: "application/json", buffer: Buffer.from("{}") })
      await page.getByText("This file is no backup of cameras").waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("import")
      const buffer = Buffer.from(JSON.stringify({ ...document, cameras, count: cameras.length }))
      await file.setInputFiles({ name: "cameras.json", mimeType: "application/json", buffer })
      await page.getByText("5 cameras, exported").waitFor()
      const passphrase = page.getByLabel("Passphrase of the export")
      await passphrase.fill("not the passphrase")
      await passphrase.press("Enter")
      await page.getByText("The passphrase is not the one that the document was exported with").waitFor()
      await passphrase.fill("a passphrase — ä")
      await passphrase.press("Enter")
      await page.getByRole("heading", { name: "1 camera would be added" }).waitFor()
      const planned = region("Cameras of the file")
      await planned.getByRole("button", { name: "here already 3" }).click()
      await planned.getByText("Yard", { exact: true }).waitFor()
      assert.strictEqual(await planned.getByText("From the backup").count(), 0)
      await planned.getByRole("button", { name: "all 5" }).click()
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("plan")
      await page.getByRole("button", { name: "Import 1 camera" }).click()
      await page.getByRole("heading", { name: "Done: 1 of 5 was added" }).waitFor()
      assert.match(page.url(), /#\/cameras\/jobs\?id=/)
      await page.reload()
      const items = region("Cameras of this job")
      await items.getByRole("link", { name: "From the backup" }).waitFor()
      await items.getByText("it cannot be read").waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("job")
      await items.getByRole("link", { name: "From the backup" }).click()
      await page.getByRole("heading", { name: "From the backup", level: 1 }).waitFor()
      await go("cameras")
      await page.getByRole("button", { name: "Delete From the backup" }).click()
      await page.getByRole("dialog").getByRole("button", { name: "Delete", exact: true }).click()
      await page.getByRole("link", { name: "From the backup" }).waitFor({ state: "detached" })
      await go("cameras/jobs?id=01890000-0000-7000-8000-00000000abcd")
      await page.getByRole("heading", { name: "This work is not known (any more)" }).waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
    })

    it("says what a camera is and can do, with the evidence", async () => {
      await open("Yard")
      await region("Streams").getByText("H.264, 640 × 360, AAC").waitFor()
      await region("Capabilities").getByText("2 of 2 profiles have a PTZ configuration").waitFor()
      await region("Streams").getByRole("button", { name: "Address for other players" }).first().click()
      await region("Streams").getByText(/^rtsp:\/\/127\.0\.0\.1:\d+\/live\/.*token=/).waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("overview")
    })

    it("moves while a button or a key is held, and stops when it is let go", async () => {
      await open("Yard")
      await part("Move")
      const button = page.getByRole("button", { name: "Up and right" })
      await button.hover()
      await page.mouse.down()
      await eventually("it moves", async () =>
        yard.state.speed)
      assert.deepStrictEqual(yard.state.speed, { pan: 0.5, tilt: 0.5, zoom: 0 })
      // Held on for longer than one move lasts.
      const moves = () => yard.state.done.filter((one) => one === "ContinuousMove").length
      await eventually("it goes on moving", async () => moves() > 4)
      assert.isFalse(yard.state.done.includes("Stop"))
      await page.mouse.up()
      await eventually("it stands", async () => yard.state.speed === null)
      assert.strictEqual(yard.state.done.filter((one) => one === "Stop").length, 1)

      await page.keyboard.down("ArrowLeft")
      await page.keyboard.down("-")
      await eventually(
        "it turns and zooms",
        async () => yard.state.speed?.pan === -0.5 && yard.state.speed.zoom === -0.5,
      )
      await page.keyboard.up("ArrowLeft")
      await eventually("it only zooms", async () => yard.state.speed?.pan === 0 && yard.state.speed.zoom === -0.5)
      await page.keyboard.up("-")
      await eventually("it stands again", async () => yard.state.speed === null)
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("move")
    })

    it("keeps positions, goes to them, replaces and deletes them", async () => {
      yard.state.position = { pan: 0.25, tilt: -0.5, zoom: 0.75 }
      await page.getByTestId("position").getByText("at 0.25 across, -0.50 up, zoom 0.75").waitFor()
      await page.getByRole("button", { name: "Keep this position" }).click()
      const dialog = page.getByRole("dialog")
      await dialog.getByLabel("Name").fill("Gate <left>")
      await dialog.getByRole("button", { name: "Keep position" }).click()
      await page.getByRole("button", { name: "Go to Gate <left>" }).waitFor()
      await page.getByRole("button", { name: "Make this home" }).click()
      await eventually("the home", async () => yard.state.home.pan === 0.25)
      yard.state.position = { pan: 0, tilt: 0, zoom: 0 }
      await page.getByRole("button", { name: "Go to Gate <left>" }).click()
      await eventually("the position", async () => yard.state.position.zoom === 0.75)
      yard.state.position = { pan: 1, tilt: 1, zoom: 1 }
      await page.getByRole("button", { name: "Edit Gate <left>" }).click()
      await dialog.getByLabel("Name").fill("Lamp")
      await dialog.getByRole("button", { name: "Replace" }).click()
      await page.getByRole("button", { name: "Go to Lamp" }).waitFor()
      assert.deepStrictEqual(yard.state.presets.map(({ name, position }) => [name, position.pan]), [["Lamp", 1]])
      await page.getByRole("button", { name: "Go home" }).click()
      await eventually("home", async () => yard.state.position.pan === 0.25)
      await page.getByRole("button", { name: "Delete Lamp" }).click()
      await dialog.getByRole("button", { name: "Delete" }).click()
      await page.getByText("None yet. Turn the camera").waitFor()
      assert.lengthOf(yard.state.presets, 0)
    })

    it("leads the camera on a tour", async () => {
      const dialog = page.getByRole("dialog")
      for (const name of ["One", "Two"]) {
        await page.getByRole("button", { name: "Keep this position" }).click()
        await dialog.getByLabel("Name").fill(name)
        await dialog.getByRole("button", { name: "Keep position" }).click()
        await page.getByRole("button", { name: `Go to ${name}` }).waitFor()
      }
      await page.getByRole("button", { name: "New tour" }).click()
      await dialog.getByLabel("Name").fill("Night round")
      await dialog.getByRole("button", { name: "Leave out stop 1" }).click()
      await dialog.getByRole("button", { name: "Another stop" }).click()
      assert.deepStrictEqual(await faultsOf(page), [])
      await dialog.getByRole("button", { name: "Create tour" }).click()
      const tours = region("Tours")
      await tours.getByRole("button", { name: "Start Night round" }).click()
      await tours.getByText("runs", { exact: true }).waitFor()
      await tours.getByRole("button", { name: "Stop Night round" }).click()
      await tours.getByText("stands", { exact: true }).waitFor()
      await tours.getByRole("button", { name: "Delete Night round" }).click()
      await dialog.getByRole("button", { name: "Delete" }).click()
      await tours.getByText("None yet. A tour leads").waitFor()
    })

    it("sets the image while a level is pulled, and puts it back", async () => {
      await part("Image")
      await page.getByRole("slider", { name: "Brightness" }).fill("80")
      await eventually("the brightness", async () => yard.state.picture.Brightness === 80)
      await page.getByLabel("Infrared filter").selectOption("on")
      await eventually("the filter", async () => yard.state.picture.IrCutFilter === "ON")
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("image")
      await page.getByRole("button", { name: "Put back as it was" }).click()
      await eventually(
        "as it was",
        async () => yard.state.picture.Brightness === 50 && yard.state.picture.IrCutFilter === "AUTO",
      )
    })

    it("writes a text into the picture where it is dragged, and moves the focus while a button is held", async () => {
      const section = region("Text in the picture")
      await section.getByText("Date and time").waitFor()
      await section.getByRole("button", { name: "Add a text" }).click()
      await section.getByLabel("What").selectOption("plain")
      await section.getByLabel("Words").fill("Yard <north>")
      await section.getByLabel("Where").selectOption("custom")
      const frame = page.getByTestId("osd-frame")
      const box = (await frame.boundingBox())!
      await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2)
      await page.mouse.down()
      await page.mouse.move(box.x + box.width / 2 + 150, box.y + box.height / 2 - 80, { steps: 5 })
      await page.mouse.up()
      assert.deepStrictEqual(await faultsOf(page), [])
      await section.getByRole("button", { name: "Write it into the picture" }).click()
      await section.getByRole("button", { name: "Edit Yard <north>" }).waitFor()
      const osd = yard.state.configuration.osds.at(-1)!
      assert.deepStrictEqual([osd.position, osd.text.get("PlainText")], ["Custom", "Yard <north>"])
      assert.isTrue(Number(osd.place![0]) > 0.1 && Number(osd.place![1]) > 0.1, `${osd.place}`)
      await section.getByRole("button", { name: "Delete Yard <north>" }).click()
      await page.getByRole("dialog").getByRole("button", { name: "Take it out" }).click()
      await eventually("it is gone", async () => yard.state.configuration.osds.length === 1)
      await narrow("texts")

      await page.getByRole("button", { name: "Nearer" }).hover()
      await page.mouse.down()
      await eventually("it focuses", async () => yard.state.configuration.focusSpeed < 0)
      await page.mouse.up()
      await eventually("it rests", async () => yard.state.configuration.focusSpeed === 0)
    })

    it("sets an encoder within what the camera allows, and nothing beyond", async () => {
      await part("Encoding")
      const form = region("Encoder Main")
      const rate = form.getByLabel(/^Pictures a second/)
      await rate.fill("26")
      await form.getByRole("button", { name: "Set encoder" }).click()
      assert.isFalse(await rate.evaluate((one) => (one as HTMLInputElement).validity.valid))
      assert.strictEqual(yard.state.encoders.main.frameRate, 25)
      await rate.fill("12")
      await form.getByLabel("Size").selectOption("1280x720")
      await form.getByRole("button", { name: "Set encoder" }).click()
      await form.getByText("The camera has taken it").waitFor()
      await region("Sound").getByLabel(/^Codec/).waitFor()
      assert.deepInclude(yard.state.encoders.main, { frameRate: 12, width: 1280, height: 720, bitrate: 1024 })
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("encoding")
    })

    it("tells how wrong the camera's clock is, sets it, and restarts the camera after a question", async () => {
      yard.state.quirks.clockSkewMs = -3_725_000
      await part("Device")
      const clock = region("Date and time")
      await clock.getByText(/^1 h 2 min behind$/).waitFor()
      await clock.getByRole("button", { name: "Set to this recorder's time" }).click()
      await clock.getByText("agrees with this recorder").waitFor()
      await page.getByRole("button", { name: "Restart the camera" }).click()
      assert.deepStrictEqual(await faultsOf(page), [])
      await page.getByRole("dialog").getByRole("button", { name: "Restart" }).click()
      await page.getByText("The camera restarts: Back in a minute").waitFor()
      assert.include(yard.state.done, "SystemReboot")
      await narrow("device")
    })

    it("shows nothing that a camera does not offer", async () => {
      await open(longName)
      await page.getByRole("link", { name: "Encoding", exact: true }).waitFor()
      for (const name of ["Move", "Image"]) {
        assert.strictEqual(await page.getByRole("link", { name, exact: true }).count(), 0, name)
      }
      await narrow("a long name")
      await open("By its stream")
      await region("Streams").waitFor()
      assert.strictEqual(await page.getByRole("navigation", { name: "By its stream" }).count(), 0)
    })

    it("says that a camera is away, and asks for the password that it refuses", async () => {
      yard.state.quirks.busy = true
      await open("Yard")
      await page.getByText(/^The camera cannot be asked/).waitFor()
      assert.strictEqual(await page.getByRole("link", { name: "Move", exact: true }).count(), 0)
      yard.state.quirks.busy = false
      await page.getByRole("button", { name: "Try again" }).click()
      await page.getByRole("link", { name: "Move", exact: true }).waitFor()

      const { cameras } = node.client.camera
      const { items } = await Effect.runPromise(cameras({ query: {} }))
      const { id } = items.find(({ name }) => name === "Yard")!
      const payload = { name: "Yard", password: Redacted.make("guess") }
      await Effect.runPromise(node.client.camera.updateCamera({ params: { id }, headers: {}, payload }))
      const asked = region("Password refused")
      await asked.waitFor()
      assert.deepStrictEqual(await faultsOf(page), [])
      await narrow("password")
      await asked.getByLabel("Password of the camera").fill("swordfish")
      await asked.getByRole("button", { name: "Try these" }).click()
      await asked.waitFor({ state: "detached" })
      await page.getByText("online", { exact: true }).first().waitFor()
    })

    it("shows nothing that a user may not do", async () => {
      const viewer = { username: "viewer", password: "looks-but-never-touches" }
      const secret = { password: Redacted.make(viewer.password), mustChangePassword: false }
      const payload = { username: viewer.username, roles: ["viewer"], ...secret }
      await Effect.runPromise(node.client.users.createUser({ headers: {}, payload }))
      const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, locale: "en-US" })
      const other = await context.newPage()
      other.setDefaultTimeout(60_000)
      await signIn(other, node.address, viewer)
      await other.goto(`${node.address}/#/cameras`)
      await other.getByRole("link", { name: "Yard", exact: true }).click()
      await other.getByRole("region", { name: "Capabilities" }).getByText("Can be moved").waitFor()
      assert.strictEqual(await other.getByRole("navigation", { name: "Yard" }).count(), 0)
      assert.strictEqual(await other.getByRole("link", { name: "Edit" }).count(), 0)
      await other.goto(`${node.address}/#/cameras/add`)
      await other.getByRole("heading", { name: "Cameras" }).waitFor()
      assert.strictEqual(await other.getByRole("link", { name: "Add cameras" }).count(), 0)
      await context.close()
    })
  },
)
