/** Focus by hand: moves while a button is held. */
import { useEffect, useMemo, useState } from "react"
import { moveFocus, stopFocus } from "../api-camera-config.ts"
import type { Source } from "../api-camera.ts"
import { messageOf, tagOf } from "../api.ts"
import { Motion } from "./camera-motion.ts"
import { Problem } from "./notes.tsx"

/** On the camera's own scale, which goes to 1 as a rule. */
const speed = 1

export const Focus = ({ source: { id, token } }: { readonly source: Source }) => {
  const [error, setError] = useState<string | null>(null)
  const [absent, setAbsent] = useState<string | null>(null)
  const motion = useMemo(() =>
    new Motion<number>({
      move: (wish, timeoutMs) => moveFocus({ id, token }, wish, timeoutMs),
      stop: () => stopFocus({ id, token }),
      onError: (failure) => (tagOf(failure) === "OnvifOperationUnsupported" ? setAbsent : setError)(messageOf(failure)),
    }), [id, token])
  useEffect(() => () => motion.want(null), [motion])
  const begin = (direction: 1 | -1) => {
    setError(null)
    motion.want(direction * speed)
  }
  const rest = () => motion.want(null)
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
      onKeyDown={(event) => (event.key === " " || event.key === "Enter") && !event.repeat && begin(direction)}
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
