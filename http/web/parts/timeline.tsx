/**
 * The timeline of one recording: recorded spans, gaps with their cause, a playhead; zoom from days to seconds, drag to move,
 * click or keys to seek.
 *
 * Keys: arrows move the playhead by a fiftieth of the view, Page keys the view by its length, `+` and `-` zoom, Home and End
 * go to the first and last footage of the view.
 */
import { type KeyboardEvent, type PointerEvent, useEffect, useRef, useState } from "react"
import { causeOf, clockOf, dayLength, dayOf, hour, lengthOf, minute, minuteOf, momentOf, second } from "../time.ts"

export interface View {
  readonly start: number
  readonly end: number
}

export interface TimelineSpan extends View {
  /** Name of the node whose disks have it, where several may. */
  readonly holder?: string
}

export interface TimelineGap extends View {
  readonly cause: string
  readonly missingMs: number
}

interface Props {
  readonly view: View
  readonly onView: (view: View) => void
  readonly spans: ReadonlyArray<TimelineSpan>
  readonly gaps: ReadonlyArray<TimelineGap>
  readonly playhead: number | null
  readonly onSeek: (ms: number) => void
}

const shortest = 10 * second
const longest = 32 * dayLength
const steps = [
  second,
  5 * second,
  15 * second,
  30 * second,
  minute,
  5 * minute,
  15 * minute,
  30 * minute,
  hour,
  3 * hour,
  6 * hour,
  12 * hour,
  dayLength,
  7 * dayLength,
]

/** Ticks at round local times, at most `most` of them. */
const ticksOf = (view: View, most: number): ReadonlyArray<number> => {
  const step = steps.find((one) => (view.end - view.start) / one <= most) ?? 7 * dayLength
  const zone = new Date(view.start).getTimezoneOffset() * minute
  const first = Math.ceil((view.start - zone) / step) * step + zone
  return Array.from({ length: Math.max(0, Math.ceil((view.end - first) / step)) }, (_, i) => first + i * step)
}

const isMidnight = (ms: number): boolean => new Date(ms).getHours() === 0 && new Date(ms).getMinutes() === 0

const tickLabel = (ms: number, length: number): string => {
  if (length > 3 * dayLength || (length > 10 * minute && isMidnight(ms))) return dayOf(ms)
  return length > 10 * minute ? minuteOf(ms) : clockOf(ms)
}

/** The view scaled about one moment, within the bounds of zoom. */
export const zoomed = (view: View, factor: number, about: number): View => {
  const length = Math.min(longest, Math.max(shortest, (view.end - view.start) * factor))
  const share = Math.min(1, Math.max(0, (about - view.start) / (view.end - view.start)))
  const start = Math.round(about - share * length)
  return { start, end: start + Math.round(length) }
}

const moved = (view: View, by: number): View => ({ start: view.start + by, end: view.end + by })

const within = (parts: ReadonlyArray<View>, view: View) =>
  parts.filter((part) => part.end > view.start && part.start < view.end)

interface Held {
  readonly x: number
  readonly view: View
  moved: boolean
}

/** Wheel, drag, click and hover on the box; `at` maps a place on screen to a moment. */
const usePointer = ({ onSeek, onView, view }: Props) => {
  const box = useRef<HTMLDivElement>(null)
  const held = useRef<Held | null>(null)
  const [hover, setHover] = useState<number | null>(null)
  const [width, setWidth] = useState(1000)
  const at = (clientX: number) => {
    const rect = box.current!.getBoundingClientRect()
    return view.start + (clientX - rect.left) / rect.width * (view.end - view.start)
  }

  const zoom = useRef((_event: WheelEvent) => {})
  zoom.current = (event) => {
    event.preventDefault()
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      onView(moved(view, event.deltaX / width * (view.end - view.start)))
    } else onView(zoomed(view, event.deltaY > 0 ? 1.25 : 0.8, at(event.clientX)))
  }
  // React's own wheel listeners are passive; the page must not scroll while the timeline zooms.
  useEffect(() => {
    const element = box.current!
    const wheel = (event: WheelEvent) => zoom.current(event)
    const observer = new ResizeObserver(() => setWidth(element.clientWidth))
    observer.observe(element)
    element.addEventListener("wheel", wheel, { passive: false })
    return () => {
      observer.disconnect()
      element.removeEventListener("wheel", wheel)
    }
  }, [])

  const handlers = {
    onPointerDown: (event: PointerEvent) => {
      if (event.button !== 0) return
      box.current!.setPointerCapture(event.pointerId)
      held.current = { x: event.clientX, view, moved: false }
    },
    onPointerMove: (event: PointerEvent) => {
      setHover(at(event.clientX))
      const start = held.current
      if (start === null) return
      const by = event.clientX - start.x
      if (Math.abs(by) < 4 && !start.moved) return
      start.moved = true
      onView(moved(start.view, -by / width * (start.view.end - start.view.start)))
    },
    onPointerUp: (event: PointerEvent) => {
      const start = held.current
      held.current = null
      if (start !== null && !start.moved) onSeek(at(event.clientX))
    },
    onPointerCancel: () => {
      held.current = null
    },
    onPointerLeave: () => setHover(null),
  }
  return { box, handlers, hover, width }
}

/** Keeps a label of about `halfPixels` to each side inside of the box. */
const kept = (share: number, width: number, halfPixels: number): string => {
  const edge = Math.min(0.5, halfPixels / width) * 100
  return `${Math.min(100 - edge, Math.max(edge, share))}%`
}

/** Where the footage of one node ends and that of another begins. */
const seamsOf = (spans: ReadonlyArray<TimelineSpan>): ReadonlyArray<TimelineSpan> =>
  spans.filter(({ holder }, at) => at > 0 && holder !== undefined && spans[at - 1]!.holder !== holder)

export const Timeline = (props: Props) => {
  const { gaps, onSeek, onView, playhead, spans, view } = props
  const { box, handlers, hover, width } = usePointer(props)
  const length = view.end - view.start
  const share = (ms: number) => (ms - view.start) / length * 100
  const clipped = (ms: number) => Math.min(101, Math.max(-1, share(ms)))
  const place = (part: View) => ({
    left: `${clipped(part.start)}%`,
    width: `${clipped(part.end) - clipped(part.start)}%`,
  })

  const key = (event: KeyboardEvent) => {
    const now = playhead ?? (view.start + view.end) / 2
    const shown = within(spans, view)
    const actions: Record<string, () => void> = {
      ArrowLeft: () => onSeek(now - length / 50),
      ArrowRight: () => onSeek(now + length / 50),
      PageUp: () => onView(moved(view, -length)),
      PageDown: () => onView(moved(view, length)),
      Home: () => shown[0] && onSeek(Math.max(view.start, shown[0].start)),
      End: () => shown.length > 0 && onSeek(Math.min(view.end, shown.at(-1)!.end) - 2 * second),
      "+": () => onView(zoomed(view, 0.5, now)),
      "=": () => onView(zoomed(view, 0.5, now)),
      "-": () => onView(zoomed(view, 2, now)),
    }
    const action = actions[event.key]
    if (action === undefined || event.ctrlKey || event.metaKey || event.altKey) return
    event.preventDefault()
    action()
  }

  const held = hover === null ? undefined : spans.find((span) => span.start <= hover && hover < span.end)?.holder
  const under = hover === null ? undefined : gaps.find((gap) => gap.start <= hover && hover < gap.end)
  const labelled = playhead !== null && playhead >= view.start && playhead <= view.end
  const ticks = ticksOf(view, Math.max(3, Math.floor(width / 90)))
  const now = Date.now()
  return (
    <div
      ref={box}
      className="timeline"
      role="slider"
      tabIndex={0}
      aria-label="Timeline: arrow keys seek, plus and minus zoom, Page keys move the view"
      aria-valuemin={view.start}
      aria-valuemax={view.end}
      aria-valuenow={Math.round(Math.min(view.end, Math.max(view.start, playhead ?? view.start)))}
      aria-valuetext={playhead === null ? "no position" : momentOf(playhead)}
      onKeyDown={key}
      {...handlers}
    >
      <div className="track">
        {within(spans, view).map((span) => <i key={span.start} className="span" style={place(span)} />)}
        {within(seamsOf(spans), view).map((seam) => (
          <i
            key={`seam ${seam.start}`}
            className="seam"
            data-seam={seam.start}
            style={{ left: `${clipped(seam.start)}%` }}
          />
        ))}
        {within(gaps, view).map((gap) => <i key={gap.start} className="gap" style={place(gap)} />)}
      </div>
      {now < view.end && <div className="now" style={{ left: `${Math.max(0, share(now))}%` }} />}
      {ticks.map((tick) => (
        <div key={tick} aria-hidden="true">
          <div className="rule" style={{ left: `${share(tick)}%` }} />
          <div className="tick" style={{ left: `${share(tick)}%` }}>{tickLabel(tick, length)}</div>
        </div>
      ))}
      {labelled && (
        <>
          <div className="needle" style={{ left: `${share(playhead)}%` }} />
          <div className="bubble" aria-hidden="true" style={{ left: kept(share(playhead), width, 40) }}>
            {clockOf(playhead)}
          </div>
        </>
      )}
      {hover !== null && (
        <>
          <div className="hover" style={{ left: `${share(hover)}%` }} />
          <div className="tip" style={{ left: kept(share(hover), width, under === undefined ? 90 : 170) }}>
            {under === undefined ?
              `${momentOf(hover)}${held === undefined ? "" : ` · held by ${held}`}` :
              `${clockOf(hover)} · ${causeOf(under.cause)}, ${lengthOf(under.missingMs)} missing`}
          </div>
        </>
      )}
    </div>
  )
}
