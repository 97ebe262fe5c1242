/** Entries of each of the last thirty days as bars; a press narrows the log to that day. */
import type { AuditDay } from "#schema/auth-audit.ts"
import { auditStats } from "../api-audit.ts"
import { timeZone } from "../time.ts"
import { useQuery } from "../use-query.ts"
import type { Filter } from "./audit-filters.tsx"
import { Problem } from "./notes.tsx"

const parts = ["refused", "failure", "success"] as const

const wordsOf = ({ date, outcomes, total }: AuditDay): string =>
  `${date}: ${total} ${total === 1 ? "entry" : "entries"}, ${outcomes.failure} failed, ${outcomes.refused} refused`

/** Midnight of the day after, as the browser's calendar has it. */
const nextDay = (date: string): string => {
  const at = new Date(`${date}T00:00`)
  at.setDate(at.getDate() + 1)
  const two = (value: number) => String(value).padStart(2, "0")
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
}

interface Props {
  readonly onDay: (day: Pick<Filter, "from" | "to">) => void
}

export const AuditDays = ({ onDay }: Props) => {
  const stats = useQuery("audit-stats", () => auditStats(timeZone), 30_000)
  if (stats.data === null) return <Problem error={stats.error} />
  const { days } = stats.data
  const most = Math.max(1, ...days.map(({ total }) => total))
  return (
    <section className="panel" aria-label="Entries by day">
      <div className="days">
        {days.map((day) => (
          <button
            key={day.date}
            type="button"
            aria-label={wordsOf(day)}
            title={wordsOf(day)}
            onClick={() => onDay({ from: `${day.date}T00:00`, to: `${nextDay(day.date)}T00:00` })}
          >
            {day.total > 0 &&
              parts.map((part) => (
                <i key={part} className={part} style={{ height: `${day.outcomes[part] / most * 100}%` }} />
              ))}
          </button>
        ))}
      </div>
      <div className="hours" aria-hidden="true">
        <span>{days[0]?.date}</span>
        <span>{days.at(-1)?.date}</span>
      </div>
      <p className="legend small">
        <span>
          <i className="success" />success
        </span>
        <span>
          <i className="failure" />failure
        </span>
        <span>
          <i className="refused" />refused
        </span>
      </p>
    </section>
  )
}
