/**
 * Chromium for tests: it talks to nobody but the pages it is shown, and a test that fails tells what they showed.
 *
 * Where Debian's shell of it is installed, pages are shown in that: the same engine and decoders without windows, for two thirds of
 * the work.
 */
import { existsSync } from "node:fs"
import { type Browser, chromium } from "playwright-core"
import { showPagesOf } from "./shown-pages.ts"

const whole = "/usr/bin/chromium"
const shell = "/usr/bin/chromium-headless-shell"
const pagesIn = existsSync(shell) ? shell : whole

/** Why there can be no test in a browser; empty where there can. */
export const withoutChromium: string = existsSync(whole) ? "" : `no ${whole}`

const launch = async (executablePath: string, more: ReadonlyArray<string>): Promise<Browser> => {
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

/** For pages. `more`: of its command line. */
export const launchChromium = (...more: ReadonlyArray<string>): Promise<Browser> => launch(pagesIn, more)

/** The browser that people have: for what the shell lacks (notifications), and where a browser is the judge of media. */
export const launchWholeChromium = (...more: ReadonlyArray<string>): Promise<Browser> => launch(whole, more)
