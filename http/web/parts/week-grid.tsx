/**
 * The hours of a week to paint, by pointer or by keys: arrows move, Space turns an hour over, with Shift the arrows paint. It is
 * one stop of the Tab key.
 */
import { weekdays } from "#schema/notification-rules.ts"
import { type KeyboardEvent, useEffect, useRef, useState } from "react"
import { hourKey, hoursOfDay, type Week } from "../week.ts"

interface Props {
  readonly week: Week
  readonly onChange: (week: Week) => void
}

interface Place {
  readonly day: number
  readonly hour: number
}

const moves: Readonly<Record<string, Place>> = {
  ArrowRight: { day: 0, hour: 1 },
  ArrowLeft: { day: 0, hour: -1 },
  ArrowDown: { day: 1, hour: 0 },
  ArrowUp: { day: -1, hour: 0 },
}

const hours = Array.from({ length: hoursOfDay }, (_, hour) => hour)

const painted = (week: Week, keys: ReadonlyArray<string>, on: boolean): Week =>
  on ? new Set([...week, ...keys]) : new Set([...week].filter((key) => !keys.includes(key)))

const dayKeys = (day: number) => hours.map((hour) => hourKey(day, hour))

/** What a pressed pointer does to the hours that it comes to; null while none is pressed. */
const useBrush = () => {
  const brush = useRef<boolean | null>(null)
  useEffect(() => {
    const end = () => {
      brush.current = null
    }
    window.addEventListener("pointerup", end)
    window.addEventListener("pointercancel", end)
    return () => {
      window.removeEventListener("pointerup", end)
      window.removeEventListener("pointercancel", end)
    }
  }, [])
  return brush
}

const Head = () => (
  <thead>
    <tr>
      <th scope="col">
        <span className="visually-hidden">Day</span>
      </th>
      {hours.map((hour) => <th key={hour} scope="col">{hour % 6 === 0 ? hour : ""}</th>)}
    </tr>
  </thead>
)

export const WeekGrid = ({ onChange, week }: Props) => {
  const [at, setAt] = useState<Place>({ day: 0, hour: 8 })
  const grid = useRef<HTMLTableElement>(null)
  const brush = useBrush()
  const paint = ({ day, hour }: Place, on: boolean) => onChange(painted(week, [hourKey(day, hour)], on))
  const onKeyDown = (event: KeyboardEvent) => {
    const chosen = week.has(hourKey(at.day, at.hour))
    const move = moves[event.key]
    if (event.key === " ") paint(at, !chosen)
    else if (move === undefined) return
    else {
      const day = Math.min(weekdays.length - 1, Math.max(0, at.day + move.day))
      const hour = Math.min(hoursOfDay - 1, Math.max(0, at.hour + move.hour))
      if (event.shiftKey) paint({ day, hour }, chosen)
      grid.current?.querySelector<HTMLElement>(`[data-hour="${hourKey(day, hour)}"]`)?.focus()
    }
    event.preventDefault()
  }
  return (
    <table ref={grid} className="week" role="grid" aria-label="Hours of the week" onKeyDown={onKeyDown}>
      <Head />
      <tbody>
        {weekdays.map((name, day) => {
          const all = dayKeys(day).every((key) => week.has(key))
          return (
            <tr key={name}>
              <th scope="row">
                <button type="button" className="link" onClick={() => onChange(painted(week, dayKeys(day), !all))}>
                  {name.slice(0, 3)}
                  <span className="visually-hidden">{name.slice(3)}, whole day</span>
                </button>
              </th>
              {hours.map((hour) => {
                const key = hourKey(day, hour)
                const chosen = week.has(key)
                return (
                  <td
                    key={key}
                    role="gridcell"
                    data-hour={key}
                    tabIndex={at.day === day && at.hour === hour ? 0 : -1}
                    aria-selected={chosen}
                    aria-label={`${name} ${hour} to ${hour + 1}`}
                    onFocus={() => setAt({ day, hour })}
                    onPointerDown={(event) => {
                      // Touch keeps the pointer at the first cell, and could not paint on.
                      event.currentTarget.releasePointerCapture(event.pointerId)
                      brush.current = !chosen
                      paint({ day, hour }, !chosen)
                    }}
                    onPointerEnter={() => brush.current !== null && paint({ day, hour }, brush.current)}
                  />
                )
              })}
            </tr>
          )
        })}
      </tbody>
    </table>
  )
}
