/** Chromium for tests: it talks to nobody but the pages it is shown, and a test that fails tells what they showed. */
import { existsSync } from "node:fs"
import { type Browser, chromium } from "playwright-core"
import { showPagesOf } from "./shown-pages.ts"

const executablePath = "/usr/bin/chromium"

/** Why there can be no test in a browser; empty where there can. */
export const withoutChromium: string = existsSync(executablePath) ? "" : `no ${executablePath}`

/** `more`: of its command line. */
export const launchChromium = async (...more: ReadonlyArray<string>): Promise<Browser> => {
  const browser = await chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
      // Pulsing signs are drawn sixty times a second, here without a graphics card.
      "--force-prefers-reduced-motion",
      ...more,
    ],
  })
  showPagesOf(browser)
  return browser
}
