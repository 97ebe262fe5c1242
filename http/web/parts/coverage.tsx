/** How much of an interval is recorded: a bar with gaps in another colour, and the share in words. */
import { causeText, lengthOf } from "../time.ts"
import type { TimelineGap, View } from "./timeline.tsx"

interface Props {
  readonly interval: View
  readonly spans: ReadonlyArray<View>
  readonly gaps: ReadonlyArray<TimelineGap>
}

export const CoverageBar = ({ gaps, interval, spans }: Props) => {
  const length = interval.end - interval.start
  const x = (ms: number) => Math.min(1, Math.max(0, (ms - interval.start) / length)) * 1000
  const missing = gaps.reduce((sum, gap) => sum + gap.end - gap.start, 0)
  const words = gaps.length === 0 ?
    "no gap" :
    `${gaps.length} ${gaps.length === 1 ? "gap" : "gaps"}, ${lengthOf(missing)} missing`
  return (
    <svg
      className="coverage"
      viewBox="0 0 1000 18"
      preserveAspectRatio="none"
      role="img"
      aria-label={`Last 24 hours: ${words}`}
    >
      {spans.map((span) => (
        <rect
          key={`s${span.start}`}
          className="span"
          x={x(span.start)}
          width={Math.max(1.5, x(span.end) - x(span.start))}
          height="18"
        />
      ))}
      {gaps.map((gap) => (
        <rect
          key={`g${gap.start}`}
          className="gap"
          x={x(gap.start)}
          width={Math.max(2, x(gap.end) - x(gap.start))}
          height="18"
        >
          <title>{`${lengthOf(gap.end - gap.start)}: ${causeText[gap.cause] ?? gap.cause}`}</title>
        </rect>
      ))}
    </svg>
  )
}
