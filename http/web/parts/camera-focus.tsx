/** Focus by hand: moves while a button is held. */
import { useEffect, useRef, useState } from "react"
import { moveFocus, stopFocus } from "../api-camera-config.ts"
import type { Source } from "../api-camera.ts"
import { messageOf, tagOf } from "../api.ts"
import { Problem } from "./notes.tsx"

/** On the camera's own scale, which goes to 1 as a rule. */
const speed = 1

export const Focus = ({ source }: { readonly source: Source }) => {
  const [error, setError] = useState<string | null>(null)
  const [absent, setAbsent] = useState<string | null>(null)
  /** What is on its way, so that the stop comes after the move. */
  const under = useRef<Promise<unknown> | null>(null)
  const failed = (failure: unknown) => {
    under.current = null
    if (tagOf(failure) === "OnvifOperationUnsupported") setAbsent(messageOf(failure))
    else setError(messageOf(failure))
  }
  const begin = (direction: 1 | -1) => {
    if (under.current !== null) return
    setError(null)
    under.current = moveFocus(source, direction * speed)
    under.current.catch(failed)
  }
  const rest = () => {
    const moving = under.current
    if (moving === null) return
    under.current = null
    void moving.then(() => stopFocus(source)).catch(failed)
  }
  useEffect(() => rest, [source.id, source.token])
  const button = (name: string, direction: 1 | -1) => (
    <button
      type="button"
      onPointerDown={(event) => {
        event.currentTarget.setPointerCapture(event.pointerId)
        begin(direction)
      }}
      onPointerUp={rest}
      onPointerCancel={rest}
      onBlur={rest}
      onContextMenu={(event) => event.preventDefault()}
      onKeyDown={(event) => (event.key === " " || event.key === "Enter") && begin(direction)}
      onKeyUp={(event) => (event.key === " " || event.key === "Enter") && rest()}
    >
      {name}
    </button>
  )
  return (
    <section className="stack" aria-label="Focus">
      <h2>Focus</h2>
      {absent === null ?
        <div className="row holds">{button("Nearer", -1)}{button("Farther", 1)}</div> :
        <p className="muted small">{absent}</p>}
      <Problem error={error} />
    </section>
  )
}
