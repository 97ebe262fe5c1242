/** Small pieces shown on every page: status badges, reasons, errors, empty states, a dialog. */
import { type ReactNode, useEffect, useRef } from "react"
import { reasonOf } from "../reasons.ts"
import { Icon, type IconName } from "./icons.tsx"

type Tone = "good" | "warn" | "bad" | "idle"

const tones: Readonly<Record<string, Tone>> = {
  online: "good",
  recording: "good",
  ok: "good",
  pass: "good",
  degraded: "warn",
  probing: "warn",
  waiting: "warn",
  warn: "warn",
  slow: "warn",
  offline: "bad",
  authFailed: "bad",
  failed: "bad",
  fail: "bad",
  full: "bad",
  readOnly: "bad",
  missing: "bad",
  error: "bad",
}

const words: Readonly<Record<string, string>> = {
  registered: "new",
  probing: "connecting",
  online: "online",
  degraded: "degraded",
  offline: "offline",
  authFailed: "password refused",
  disabled: "switched off",
  idle: "on demand",
  recording: "recording",
  waiting: "waiting for pictures",
  failed: "not recording",
  readOnly: "read-only",
  pass: "healthy",
  warn: "needs attention",
  fail: "failing",
}

export const Badge = ({ state, text }: { readonly state: string; readonly text?: string | undefined }) => (
  <span className={`badge ${tones[state] ?? "idle"} ${state === "recording" ? "live" : ""}`}>
    {text ?? words[state] ?? state}
  </span>
)

/** Why something is not as it should be: one sentence, and the detail for whoever looks into it. */
export const Why = ({ reason }: { readonly reason: string }) => {
  if (reason === "") return null
  const { detail, headline } = reasonOf(reason)
  return (
    <span className="why">
      {headline}
      {detail !== "" && <span className="detail">{detail}</span>}
    </span>
  )
}

export const Problem = ({ children, error }: { readonly error: string | null; readonly children?: ReactNode }) =>
  error === null ? null : (
    <div className="alert" role="alert">
      <Icon name="trouble" />
      <span className="grow">{error}</span>
      {children}
    </div>
  )

/** Bars in place of what is not here yet. */
export const Loading = ({ lines }: { readonly lines: number }) => (
  <div className="panel stack" role="status">
    <span className="visually-hidden">Loading</span>
    {Array.from({ length: lines }, (_, line) => <div key={line} className="skeleton" />)}
  </div>
)

export const Empty = (
  { children, icon, title }: { readonly icon: IconName; readonly title: string; readonly children?: ReactNode },
) => (
  <div className="panel empty">
    <span className="sign">
      <Icon name={icon} />
    </span>
    <h2>{title}</h2>
    {children}
  </div>
)

/** A modal dialog; Escape and the browser's own controls close it. */
export const Modal = (
  { children, onClose, title }: { readonly title: string; readonly onClose: () => void; readonly children: ReactNode },
) => {
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    dialog.current?.showModal()
    // Where there is something to fill in or to answer, that comes before the sign that closes.
    dialog.current?.querySelector<HTMLElement>("input, .actions button")?.focus()
  }, [])
  return (
    <dialog ref={dialog} aria-label={title} onClose={onClose}>
      <div className="title">
        <h2>{title}</h2>
        <button type="button" className="plain" aria-label="Close" onClick={onClose}>
          <Icon name="close" />
        </button>
      </div>
      {children}
    </dialog>
  )
}
