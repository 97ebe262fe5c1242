/** A month of days; those with footage can be picked, those with something missing say so. */
import type { RecordingToken } from "#schema/common.ts"
import { useState } from "react"
import type { Footage } from "../footage.ts"
import { dateOf, lengthOf, monthOf, timeZone } from "../time.ts"
import { useQuery } from "../use-query.ts"
import { Icon } from "./icons.tsx"
import { Problem } from "./notes.tsx"

interface Props {
  readonly token: RecordingToken
  /** Where days are asked for; null while that is not known. */
  readonly footage: Footage | null
  /** Moment whose day is marked. */
  readonly moment: number
  /** Whether to ask already. */
  readonly due: boolean
  readonly onPick: (day: { readonly start: number; readonly end: number }) => void
}

/** Monday first, as ISO 8601 counts. */
const weekdays = Array.from(
  { length: 7 },
  (_, index) =>
    new Intl.DateTimeFormat(undefined, { weekday: "short" }).format(new Date(2024, 0, 1 + index)).slice(0, 2),
)

const firstOf = (ms: number): Date => new Date(new Date(ms).getFullYear(), new Date(ms).getMonth(), 1)

export const DayPicker = ({ due, footage, moment, onPick, token }: Props) => {
  const [first, setFirst] = useState(() => firstOf(moment))
  const month = dateOf(first.getTime()).slice(0, 7)
  const asked = async () => await footage?.days(month, timeZone) ?? null
  const known = useQuery(`month-${token}-${month}`, asked, 30_000, due && footage !== null)
  const turn = (by: number) => setFirst(new Date(first.getFullYear(), first.getMonth() + by, 1))
  const last = new Date(first.getFullYear(), first.getMonth() + 1, 0).getDate()
  const blank = (first.getDay() + 6) % 7
  const thisMonth = first.getTime() >= firstOf(Date.now()).getTime()
  return (
    <section className="panel" aria-label="Days">
      <div className="spread">
        <button type="button" className="plain" aria-label="Month before" onClick={() => turn(-1)}>
          <Icon name="left" />
        </button>
        <h2>{monthOf(first.getTime())}</h2>
        <button type="button" className="plain" aria-label="Month after" onClick={() => turn(1)} disabled={thisMonth}>
          <Icon name="right" />
        </button>
      </div>
      <Problem error={known.error} />
      {known.data?.partial === true && <p className="note">A node did not answer: there may be more days.</p>}
      <div className="month">
        {weekdays.map((name) => <span key={name}>{name}</span>)}
        {Array.from({ length: last }, (_, index) => {
          const date = `${month}-${String(index + 1).padStart(2, "0")}`
          const entry = known.data?.dates.find((one) => one.date === date)
          const words = entry === undefined ?
            "nothing recorded" :
            `${lengthOf(entry.recordedMs)} recorded${
              entry.missingMs > 0 ? `, ${lengthOf(entry.missingMs)} missing` : ""
            }`
          return (
            <button
              key={date}
              type="button"
              style={index === 0 ? { gridColumnStart: blank + 1 } : {}}
              className={`${entry === undefined ? "" : "has"} ${(entry?.missingMs ?? 0) > 0 ? "missing" : ""}`}
              disabled={entry === undefined}
              aria-pressed={dateOf(moment) === date}
              title={words}
              onClick={() => entry !== undefined && onPick(entry)}
            >
              {index + 1}
            </button>
          )
        })}
      </div>
    </section>
  )
}
