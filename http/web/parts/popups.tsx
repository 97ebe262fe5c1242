/** Popups of rules, above the page, each until it is closed or a while has passed without a pointer or the focus on it. */
import { type CSSProperties, useEffect, useRef, useState } from "react"
import type { Shown } from "../popup.ts"
import { momentOf } from "../time.ts"
import { Icon } from "./icons.tsx"
import { SeverityIcon } from "./severity.tsx"

/** A critical one stays until somebody closes it. */
const lasts = 20_000

interface Props {
  readonly popups: ReadonlyArray<Shown>
  readonly onClose: (id: string) => void
}

const One = ({ onClose, popup }: { readonly popup: Shown; readonly onClose: (id: string) => void }) => {
  const [held, setHeld] = useState(false)
  const { colour, id, rule, severity, test, text, time, title } = popup
  useEffect(() => {
    if (held || severity === "critical") return
    const timer = window.setTimeout(() => onClose(id), lasts)
    return () => window.clearTimeout(timer)
  }, [held, severity, id, onClose])
  const style: CSSProperties & { readonly "--popup"?: string } = colour === null ? {} : { "--popup": colour }
  return (
    <li
      className={`popup ${severity}`}
      style={style}
      onPointerEnter={() => setHeld(true)}
      onPointerLeave={() => setHeld(false)}
      onFocus={() => setHeld(true)}
      onBlur={() => setHeld(false)}
    >
      <SeverityIcon severity={severity} />
      <div className="grow">
        <strong>{title}</strong>
        <div className="small">{text}</div>
        <div className="small muted">{rule}{test && ", a test"} · {momentOf(time)}</div>
      </div>
      <button type="button" className="plain" aria-label={`Close: ${title}`} onClick={() => onClose(id)}>
        <Icon name="close" />
      </button>
    </li>
  )
}

/** In the top layer, and brought there anew with each popup: a dialog that is open must not hide it. */
export const Popups = ({ onClose, popups }: Props) => {
  const layer = useRef<HTMLDivElement>(null)
  const newest = popups.at(-1)?.id
  useEffect(() => {
    if (newest === undefined) return
    const shown = layer.current
    shown?.showPopover()
    return () => shown?.hidePopover()
  }, [newest])
  return (
    <div ref={layer} popover="manual" className="popups" role="log" aria-label="Alerts">
      <ul>{popups.map((popup) => <One key={popup.id} popup={popup} onClose={onClose} />)}</ul>
    </div>
  )
}
