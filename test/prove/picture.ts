/**
 * `npm run picture`: makes `ops/dashboard.png`, the picture in the README: the player of a simulated camera that was away for a
 * few seconds, in Debian's Chromium at 1440 × 900.
 */
import { stat, writeFile } from "node:fs/promises"
import { setTimeout as sleep } from "node:timers/promises"
import { eventually, launchChromium, recordCamera, signIn, startNode } from "../browser/node.ts"

const file = new URL("../../ops/dashboard.png", import.meta.url).pathname
/** What a README may weigh down a clone with, bytes. */
const mostBytes = 400 * 1024

const take = async (): Promise<void> => {
  const node = await startNode({ simulator: ["--cameras", "2"] })
  try {
    await recordCamera(node.client, "Front door", node.cameras[0]!, 30)
    await recordCamera(node.client, "Loading bay", node.cameras[1]!, 30)
    await sleep(30_000)
    await node.tell(0, "cut", { seconds: 4 })
    await sleep(45_000)
    const browser = await launchChromium()
    try {
      const page = await browser.newPage({
        viewport: { width: 1440, height: 900 },
        colorScheme: "dark",
        locale: "en-GB",
      })
      await signIn(page, node.address)
      await page.goto(`${node.address}/#/recordings`)
      await page.getByRole("link", { name: "Play Front door", exact: true }).click()
      await page.getByRole("button", { name: "1 min", exact: true }).click()
      const gap = page.locator(".timeline .gap").last()
      await gap.waitFor()
      await eventually(
        "a picture",
        () => page.locator("video").evaluate((one) => (one as HTMLVideoElement).currentTime > 3),
      )
      await gap.hover({ force: true })
      await writeFile(file, await page.screenshot())
    } finally {
      await browser.close()
    }
  } finally {
    await node.stop()
  }
  const { size } = await stat(file)
  if (size > mostBytes) throw new Error(`the picture has ${size} bytes, at most ${mostBytes} are wanted`)
  console.log(`ops/dashboard.png: ${size} bytes`)
}

await take()
