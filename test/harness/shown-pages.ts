/**
 * What the pages of a browser showed when a test failed, so that the failure explains itself.
 *
 * Invariants
 * 1. Told are addresses, the text of the pages and what they complained of; all of it bounded: {@link mostPages} pages of
 *    {@link mostText} characters, the newest {@link mostComplaints} complaints of {@link mostWords} characters.
 * 2. A page that does not answer holds nobody up for more than {@link askMs}.
 * 3. A browser or context that the failed test itself closed is told as it was then.
 */
import type { Browser, BrowserContext, Page } from "playwright-core"

const mostPages = 8
const mostText = 3_000
const mostComplaints = 30
const mostWords = 400
const askMs = 2_000

const browsers = new Set<Browser>()
let complaints: Array<string> = []
/** Of what was closed since the test began. */
let closed: Array<string> = []

const complain = (words: string) => {
  complaints.push(words.slice(0, mostWords))
  complaints = complaints.slice(-mostComplaints)
}

const textOf = (page: Page): Promise<string> =>
  Promise.race([
    page.evaluate<string>("document.body.innerText").catch((error: unknown) => `(${String(error).slice(0, 200)})`),
    new Promise<string>((resolve) => setTimeout(resolve, askMs, "(the page does not answer)").unref()),
  ])

const shown = async (page: Page) => `${page.url()}\n${(await textOf(page)).slice(0, mostText)}`
const pagesOf = (context: BrowserContext) => context.pages().filter((page) => page.url() !== "about:blank")

const keep = async (contexts: ReadonlyArray<BrowserContext>) => {
  closed = [...closed, ...(await Promise.all(contexts.flatMap(pagesOf).map(shown)))].slice(-mostPages)
}

/** From now on a test that fails tells what this browser's pages showed. */
export const showPagesOf = (browser: Browser): void => {
  browsers.add(browser)
  browser.on("disconnected", () => browsers.delete(browser))
  browser.on("context", (context) => {
    context.on("weberror", (fault) => complain(`error: ${fault.error().message}`))
    context.on("requestfailed", (request) => complain(`failed: ${request.url()} ${request.failure()?.errorText ?? ""}`))
    context.on("console", (message) => {
      if (message.type() === "error" || message.type() === "warning") complain(`${message.type()}: ${message.text()}`)
    })
    const close = context.close.bind(context)
    context.close = async (options) => {
      await keep([context])
      await close(options)
    }
  })
  const close = browser.close.bind(browser)
  browser.close = async (options) => {
    await keep(browser.contexts())
    await close(options)
  }
}

/** Empty where no page was open. */
export const tellPages = async (): Promise<string> => {
  const open = [...browsers].flatMap((browser) => browser.contexts()).flatMap(pagesOf).slice(-mostPages)
  const texts = [...closed.map((text) => `closed: ${text}`), ...(await Promise.all(open.map(shown)))]
  if (texts.length === 0) return ""
  return [...texts, `Complaints of the pages:\n${complaints.join("\n") || "none"}`].join("\n────\n")
}

export const forgetPages = (): void => {
  complaints = []
  closed = []
}
