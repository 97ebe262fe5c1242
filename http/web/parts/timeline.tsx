/**
 * The timeline of one recording: recorded spans, gaps with their cause, a playhead; zoom from days to seconds, drag to move,
 * click or keys to seek.
 *
 * Keys: arrows move the playhead by a fiftieth of the view, Page keys by a view, `+` and `-` zoom, Home and End jump to the ends.
 */
import { type KeyboardEvent, type PointerEvent, useEffect, useRef, useState, type WheelEvent } from "react"
import { causeText, clockOf, dayLength, dayOf, hour, lengthOf, minute, minuteOf, momentOf, second } from "../time.ts"

export interface View {
  readonly start: number
  readonly end: number
}

export interface TimelineGap extends View {
  readonly cause: string
}

interface Props {
  readonly view: View
  readonly onView: (view: View) => void
  readonly spans: ReadonlyArray<View>
  readonly gaps: ReadonlyArray<TimelineGap>
  readonly playhead: number | null
  readonly onSeek: (ms: number) => void
}

const width = 1200
const height = 92
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

/** Ticks at round local times, at most 12 of them. */
const ticksOf = (view: View): ReadonlyArray<number> => {
  const step = steps.find((one) => (view.end - view.start) / one <= 12) ?? 7 * dayLength
  const zone = new Date(view.start).getTimezoneOffset() * minute
  const first = Math.ceil((view.start - zone) / step) * step + zone
  return Array.from({ length: Math.max(0, Math.ceil((view.end - first) / step)) }, (_, i) => first + i * step)
}

const tickLabel = (ms: number, view: View): string => {
  const length = view.end - view.start
  if (length > 3 * dayLength) return dayOf(ms)
  if (length > 10 * minute) {
    return new Date(ms).getHours() === 0 && new Date(ms).getMinutes() === 0 ?
      dayOf(ms) :
      minuteOf(ms)
  }
  return clockOf(ms)
}

/** The view scaled about one moment, within the bounds of zoom. */
export const zoomed = (view: View, factor: number, about: number): View => {
  const length = Math.min(longest, Math.max(shortest, (view.end - view.start) * factor))
  const share = (about - view.start) / (view.end - view.start)
  const start = Math.round(about - share * length)
  return { start, end: start + Math.round(length) }
}

const moved = (view: View, by: number): View => ({ start: view.start + by, end: view.end + by })

export const Timeline = ({ gaps, onSeek, onView, playhead, spans, view }: Props) => {
  const box = useRef<HTMLDivElement>(null)
  const drag = useRef<{ readonly x: number; readonly view: View; moved: boolean } | null>(null)
  const [hover, setHover] = useState<number | null>(null)
  const length = view.end - view.start
  const x = (ms: number) => (ms - view.start) / length * width
  const at = (clientX: number) => {
    const rect = box.current!.getBoundingClientRect()
    return view.start + (clientX - rect.left) / rect.width * length
  }

  const wheel = (event: WheelEvent) => onView(zoomed(view, event.deltaY > 0 ? 1.25 : 0.8, at(event.clientX)))

  // React attaches wheel listeners as passive; the page must not scroll while the timeline zooms.
  useEffect(() => {
    const element = box.current!
    const stop = (event: Event) => event.preventDefault()
    element.addEventListener("wheel", stop, { passive: false })
    return () => element.removeEventListener("wheel", stop)
  }, [])

  const down = (event: PointerEvent) => {
    box.current!.setPointerCapture(event.pointerId)
    drag.current = { x: event.clientX, view, moved: false }
  }
  const move = (event: PointerEvent) => {
    setHover(at(event.clientX))
    const held = drag.current
    if (held === null) return
    const by = event.clientX - held.x
    if (Math.abs(by) < 4 && !held.moved) return
    held.moved = true
    const rect = box.current!.getBoundingClientRect()
    onView(moved(held.view, -by / rect.width * (held.view.end - held.view.start)))
  }
  const up = (event: PointerEvent) => {
    const held = drag.current
    drag.current = null
    if (held !== null && !held.moved) onSeek(at(event.clientX))
  }

  const key = (event: KeyboardEvent) => {
    const now = playhead ?? (view.start + view.end) / 2
    const actions: Record<string, () => void> = {
      ArrowLeft: () => onSeek(now - length / 50),
      ArrowRight: () => onSeek(now + length / 50),
      PageUp: () => onView(moved(view, -length)),
      PageDown: () => onView(moved(view, length)),
      Home: () => spans[0] && onSeek(spans[0].start),
      End: () => spans.length > 0 && onSeek(spans.at(-1)!.end - 2 * second),
      "+": () => onView(zoomed(view, 0.5, now)),
      "=": () => onView(zoomed(view, 0.5, now)),
      "-": () => onView(zoomed(view, 2, now)),
    }
    const action = actions[event.key]
    if (action === undefined) return
    event.preventDefault()
    action()
  }

  const under = hover === null ? undefined : gaps.find((gap) => gap.start <= hover && hover < gap.end)
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
      onWheel={wheel}
      onPointerDown={down}
      onPointerMove={move}
      onPointerUp={up}
      onPointerLeave={() => setHover(null)}
      onKeyDown={key}
    >
      <svg viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden="true">
        {spans.map((span) => (
          <rect
            key={`s${span.start}`}
            className="span"
            x={x(span.start)}
            y={34}
            width={Math.max(1, x(span.end) - x(span.start))}
            height={36}
          />
        ))}
        {gaps.map((gap) => (
          <rect
            key={`g${gap.start}`}
            className="gap"
            x={x(gap.start)}
            y={40}
            width={Math.max(2, x(gap.end) - x(gap.start))}
            height={24}
          />
        ))}
        {ticksOf(view).map((tick) => (
          <line
            key={tick}
            className="tick"
            x1={x(tick)}
            x2={x(tick)}
            y1={22}
            y2={height}
            vectorEffect="non-scaling-stroke"
          />
        ))}
        {playhead !== null && (
          <line
            className="head-line"
            x1={x(playhead)}
            x2={x(playhead)}
            y1={18}
            y2={height}
            vectorEffect="non-scaling-stroke"
          />
        )}
        {hover !== null && (
          <line
            className="hover-line"
            x1={x(hover)}
            x2={x(hover)}
            y1={18}
            y2={height}
            vectorEffect="non-scaling-stroke"
          />
        )}
      </svg>
      {ticksOf(view).map((tick) => (
        <span
          key={tick}
          className="small muted mono"
          aria-hidden="true"
          style={{ position: "absolute", left: `${x(tick) / width * 100}%`, bottom: 0, paddingLeft: 4 }}
        >
          {tickLabel(tick, view)}
        </span>
      ))}
      {hover !== null && (
        <span className="tip mono" style={{ left: `${Math.min(86, Math.max(14, x(hover) / width * 100))}%` }}>
          {momentOf(hover)}
          {under !== undefined &&
            ` · missing ${lengthOf(under.end - under.start)}: ${causeText[under.cause] ?? under.cause}`}
        </span>
      )}
    </div>
  )
}
