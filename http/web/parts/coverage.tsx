/** How much of an interval is recorded: a bar with gaps in another colour, hours below it, and the same in words. */
import { causeOf, hour, lengthOf, minuteOf } from "../time.ts"
import type { TimelineGap, View } from "./timeline.tsx"

interface Props {
  readonly interval: View
  readonly spans: ReadonlyArray<View>
  readonly gaps: ReadonlyArray<TimelineGap>
}

export const CoverageBar = ({ gaps, interval, spans }: Props) => {
  const length = interval.end - interval.start
  const share = (ms: number) => Math.min(1, Math.max(0, (ms - interval.start) / length)) * 100
  const place = (part: View) => ({ left: `${share(part.start)}%`, width: `${share(part.end) - share(part.start)}%` })
  const missing = gaps.reduce((sum, gap) => sum + gap.missingMs, 0)
  const words = missing === 0 ? "nothing missing" : `${lengthOf(missing)} missing`
  const hours = [0, 6, 12, 18].map((back) => interval.end - (24 - back) * hour)
  return (
    <div>
      <div className="coverage" role="img" aria-label={`Last 24 hours: ${words}`}>
        {spans.map((span) => <i key={`s${span.start}`} className="span" style={place(span)} />)}
        {gaps.map((gap) => (
          <i
            key={`g${gap.start}`}
            className="gap"
            style={place(gap)}
            title={`${minuteOf(gap.start)}: ${causeOf(gap.cause)}, ${lengthOf(gap.missingMs)}`}
          />
        ))}
      </div>
      <div className="hours" aria-hidden="true">
        {hours.map((ms) => <span key={ms}>{minuteOf(ms)}</span>)}
        <span>now</span>
      </div>
    </div>
  )
}
