/**
 * What becomes of many cameras, one a row: as planned, or as it went.
 *
 * Invariant
 * 1. A document may have ten thousand cameras: {@link atOnce} rows are drawn at first, and as many more when they are wanted.
 */
import type { CameraJobItem, ImportPlan, JobOutcome } from "#schema/camera-job.ts"
import { useState } from "react"
import { Badge } from "./notes.tsx"

type Outcome = JobOutcome | ImportPlan["items"][number]["outcome"]
type Item = Pick<CameraJobItem, "number" | "name" | "detail"> & Partial<Pick<CameraJobItem, "host" | "cameraId">> & {
  readonly outcome: Outcome
}

const atOnce = 100

/** In the order they are told: word, and the badge whose colour it has. */
const outcomes: ReadonlyArray<readonly [outcome: Outcome, word: string, badge: string]> = [
  ["failed", "failed", "fail"],
  ["unreachable", "not reached", "fail"],
  ["refused", "refused", "fail"],
  ["restricted", "not by the licence", "warn"],
  ["invalid", "cannot be read", "fail"],
  ["clash", "in the way of another", "warn"],
  ["unsupported", "not possible", "warn"],
  ["waiting", "waiting", "idle"],
  ["add", "to be added", "ok"],
  ["added", "added", "ok"],
  ["known", "here already", "idle"],
]
const wordOf = new Map(outcomes.map(([outcome, word]) => [outcome, word]))
const badgeOf = new Map(outcomes.map(([outcome, , badge]) => [outcome, badge]))

const Row = ({ item: { cameraId, detail, host, name, number, outcome } }: { readonly item: Item }) => {
  const title = name === "" ? `Camera ${number + 1} of the document` : name
  const here = (outcome === "added" || outcome === "known") && typeof cameraId === "string"
  return (
    <li className="row outcome">
      <div className="grow">
        {here ?
          <a className="name any-break" href={`#/cameras/${cameraId}`}>{title}</a> :
          <strong className="any-break">{title}</strong>}
        {typeof host === "string" && host !== name && <span className="small mono muted any-break block">{host}</span>}
        {detail !== "" && <span className="small muted any-break block">{detail}</span>}
      </div>
      <Badge state={badgeOf.get(outcome) ?? "idle"} text={wordOf.get(outcome)} />
    </li>
  )
}

interface Props {
  readonly label: string
  readonly items: ReadonlyArray<Item>
}

/** With a choice of what to show where they differ. */
export const Outcomes = ({ items, label }: Props) => {
  const [only, setOnly] = useState<Outcome | null>(null)
  const [rows, setRows] = useState(atOnce)
  const kinds = outcomes.filter(([kind]) => items.some(({ outcome }) => outcome === kind))
  const chosen = kinds.some(([kind]) => kind === only) ? only : null
  const rank = new Map(outcomes.map(([kind], index) => [kind, index]))
  const wanted = items.filter(({ outcome }) => chosen === null || outcome === chosen)
    .toSorted((a, b) => (rank.get(a.outcome) ?? 0) - (rank.get(b.outcome) ?? 0) || a.number - b.number)
  const choose = (kind: Outcome | null) => {
    setOnly(kind)
    setRows(atOnce)
  }
  return (
    <section className="stack" aria-label={label}>
      {kinds.length > 1 && (
        <div className="row" role="group" aria-label="Show">
          <button type="button" className="chip" aria-pressed={chosen === null} onClick={() => choose(null)}>
            all {items.length}
          </button>
          {kinds.map(([kind, word]) => (
            <button
              key={kind}
              type="button"
              className="chip"
              aria-pressed={chosen === kind}
              onClick={() => choose(kind)}
            >
              {word} {items.filter(({ outcome }) => outcome === kind).length}
            </button>
          ))}
        </div>
      )}
      <ul className="plain-list">
        {wanted.slice(0, rows).map((item) => <Row key={item.number} item={item} />)}
      </ul>
      {wanted.length > rows && (
        <div className="actions">
          <span className="small muted">{rows} of {wanted.length}</span>
          <button type="button" onClick={() => setRows(rows + atOnce)}>Show more</button>
        </div>
      )}
    </section>
  )
}
