/**
 * What both nodes changed of a camera while the other one served it: the value of each side, which is in force, and a choice.
 *
 * Invariant
 * 1. No password is shown; it is told that it differs.
 */
import { CapabilitySet } from "#schema/camera-offer.ts"
import type { NodeId } from "#schema/common.ts"
import { type ConfigurationConflict, type ConflictSide, wholeThing } from "#schema/federation-journal.ts"
import { Schema } from "effect"
import { resolveConflict } from "../api-reroutes.ts"
import { countOf, fieldName } from "../reroute-words.ts"
import { momentOf } from "../time.ts"
import { useAction } from "./forms.tsx"
import { Badge, Problem } from "./notes.tsx"

const things = {
  camera: "The camera",
  channel: "The channel",
  stream: "The stream",
  recording: "The recording",
} as const

const isSet = Schema.is(CapabilitySet)

const textOf = (value: ConfigurationConflict["here"]): string => {
  if (value === null) return "none"
  if (typeof value === "boolean") return value ? "yes" : "no"
  if (typeof value === "string") return value === "" ? "(empty)" : value
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value.join(", ") || "none"
  if (Array.isArray(value) && value.every(isSet)) return value.map((one) => `${one.name}: ${one.supported}`).join(", ")
  return typeof value === "number" ? String(value) : JSON.stringify(value)
}

/** A side as one reads it. */
const sideOf = (one: ConfigurationConflict, side: ConflictSide): string => {
  const value = one[side]
  if (one.field === wholeThing) return value === null ? "removed" : side === "here" ? "as it is here" : "as it is there"
  if (one.secret) return value === null ? "removed" : "changed"
  return textOf(value)
}

const Side = ({ at, by, one, side }: {
  readonly one: ConfigurationConflict
  readonly side: ConflictSide
  readonly by: string
  readonly at: number | null
}) => (
  <td>
    <span className="small muted conflict-side">{side === "here" ? "Here" : "There"}</span>
    <span className="conflict-value">{sideOf(one, side)}</span>
    {one.inForce === side && <Badge state="ok" text="in force" />}
    <span className="small muted conflict-who">{[by, at === null ? "" : momentOf(at)].filter(Boolean).join(", ")}</span>
  </td>
)

const Row = ({ allowed, guardian, one, onDecided }: {
  readonly one: ConfigurationConflict
  readonly guardian: string
  readonly allowed: boolean
  readonly onDecided: () => void
}) => {
  const { busy, error, run } = useAction()
  const what = one.field === wholeThing ? things[one.kind] : fieldName(one.field)
  const camera = one.cameraName === "" ? "A camera that is gone" : one.cameraName
  const about = `${what} of ${camera}`
  const choose = (side: ConflictSide) => run(() => resolveConflict(one, side), onDecided)
  return (
    <tr aria-label={about}>
      <th scope="row">
        {camera}
        {one.partName !== "" && <span className="small muted conflict-who">{one.partName}</span>}
      </th>
      <td>
        {what}
        {one.inForce === "other" && <span className="small muted conflict-who">changed again since</span>}
      </td>
      <Side
        one={one}
        side="there"
        by={`${one.thereBy === "" ? "a program" : one.thereBy} on ${guardian}`}
        at={one.thereAt}
      />
      <Side one={one} side="here" by="" at={one.hereAt} />
      {allowed && (
        <td>
          <div className="actions">
            {one.choices.includes("there") && (
              <button
                type="button"
                disabled={busy}
                aria-label={`Take theirs: ${about}`}
                onClick={() => choose("there")}
              >
                Take theirs
              </button>
            )}
            <button type="button" disabled={busy} aria-label={`Keep ours: ${about}`} onClick={() => choose("here")}>
              Keep ours
            </button>
          </div>
          <Problem error={error} />
        </td>
      )}
    </tr>
  )
}

export const Conflicts = ({ allowed, conflicts, names, onDecided, total }: {
  readonly conflicts: ReadonlyArray<ConfigurationConflict>
  /** Of which these are the oldest. */
  readonly total: number
  readonly names: ReadonlyMap<NodeId, string>
  readonly allowed: boolean
  readonly onDecided: () => void
}) => (
  <section className="panel stack" aria-labelledby="conflicts">
    <div className="spread">
      <h2 id="conflicts">Changed on both nodes</h2>
      {conflicts.length > 0 && <Badge state="warn" text={`${countOf(total, "field")} to decide`} />}
    </div>
    {conflicts.length === 0 ?
      (
        <p className="muted">
          Nothing to decide. What a guardian's administrator changes of these cameras while they are served there comes
          home by itself; only what was changed here too is asked about.
        </p>
      ) :
      (
        <>
          <p className="small">
            These were changed here, and on the node that served the cameras, to different values. The later change is
            in force until you choose.
          </p>
          <div className="conflicts">
            <table>
              <thead>
                <tr>
                  <th>Camera</th>
                  <th>What</th>
                  <th>There</th>
                  <th>Here</th>
                  {allowed && (
                    <th>
                      <span className="visually-hidden">Choose</span>
                    </th>
                  )}
                </tr>
              </thead>
              <tbody>
                {conflicts.map((one) => (
                  <Row
                    key={one.id}
                    one={one}
                    guardian={names.get(one.guardianNodeId) ?? "another node"}
                    allowed={allowed}
                    onDecided={onDecided}
                  />
                ))}
              </tbody>
            </table>
          </div>
          {total > conflicts.length && <p className="small muted">{total - conflicts.length} more follow.</p>}
        </>
      )}
  </section>
)
