/**
 * A live stream as still pictures, one after another: where a browser can play nothing else.
 *
 * Invariants
 * 1. One picture is asked for at a time, the next one at the earliest {@link everyMs} later.
 * 2. The last picture stays when the way ends, until another way has one.
 */
import { freshToken } from "./api.ts"
import { guarded, meter, type StartWay } from "./stream-way.ts"

const everyMs = 1000
/** In a row; then the way ends. */
const mostFailures = 3
/** Widths are asked for in these steps, so that tiles of about the same size share a picture. */
const widthStep = 160
const widest = 1920

/** Of the last still of each element, to be given back when the next one is shown. */
const shown = new WeakMap<HTMLImageElement, string>()

const show = (still: HTMLImageElement, blob: Blob): void => {
  const before = shown.get(still)
  const url = URL.createObjectURL(blob)
  shown.set(still, url)
  still.src = url
  if (before !== undefined) URL.revokeObjectURL(before)
}

/** Gives back what a still holds; when its element goes. */
export const dropStill = (still: HTMLImageElement): void => {
  const url = shown.get(still)
  if (url !== undefined) URL.revokeObjectURL(url)
  shown.delete(still)
}

const widthOf = (still: HTMLImageElement): number => {
  const width = (still.closest(".live-view")?.clientWidth ?? 640) * devicePixelRatio
  return Math.min(widest, Math.max(widthStep, Math.ceil(width / widthStep) * widthStep))
}

export const overStills: StartWay = ({ path, still }, told) => {
  const events = guarded(told)
  const abort = new AbortController()
  let timer = 0
  let failures = 0
  let pictures = 0
  let bytes = 0

  const ask = async (): Promise<void> => {
    const headers = { authorization: `Bearer ${await freshToken()}` }
    const answer = await fetch(`${path.snapshotUrl}?width=${widthOf(still)}`, { headers, signal: abort.signal })
    if (answer.status === 401 || answer.status === 403 || answer.status === 404) {
      return events.onFault({ kind: "refused", words: "The recorder does not let you watch this." })
    }
    if (answer.status === 501) {
      return events.onFault({ kind: "unsupported", words: "This recorder makes no still pictures." })
    }
    if (!answer.ok) throw new Error(`${answer.status}`)
    const blob = await answer.blob()
    if (abort.signal.aborted) return
    show(still, blob)
    failures = 0
    pictures++
    bytes += blob.size
    events.onPicture()
  }
  const turn = async (): Promise<void> => {
    const begun = performance.now()
    await ask().catch(() => {
      if (++failures >= mostFailures) events.onFault({ kind: "lost", words: "No still pictures come." })
    })
    if (abort.signal.aborted) return
    timer = window.setTimeout(() => void turn(), Math.max(0, everyMs - (performance.now() - begun)))
  }
  void turn()

  const rates = meter(10_000)
  return {
    close: () => {
      events.end()
      abort.abort()
      window.clearTimeout(timer)
    },
    figures: () =>
      Promise.resolve({
        width: still.naturalWidth,
        height: still.naturalHeight,
        lost: null,
        dropped: null,
        latencyMs: null,
        ...rates(pictures, bytes),
      }),
  }
}
