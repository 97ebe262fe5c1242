/** Small pieces shown on every page: status badges, errors, empty states, a dialog. */
import { type ReactNode, useEffect, useRef } from "react"

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
  authFailed: "password refused",
  readOnly: "read-only",
  probing: "connecting",
  pass: "healthy",
  fail: "failing",
}

export const Badge = ({ state }: { readonly state: string }) => (
  <span className={`badge ${tones[state] ?? "idle"} ${state === "recording" ? "live" : ""}`}>
    {words[state] ?? state}
  </span>
)

export const Problem = ({ error }: { readonly error: string | null }) =>
  error === null ? null : <div className="alert" role="alert">{error}</div>

export const Empty = ({ children, title }: { readonly title: string; readonly children?: ReactNode }) => (
  <div className="panel empty">
    <svg viewBox="0 0 64 64" fill="none" stroke="currentColor" strokeWidth="2.5" aria-hidden="true">
      <path d="M6 34c14-17 38-17 52 0-14 17-38 17-52 0Z" />
      <circle cx="32" cy="34" r="9" />
      <path d="M10 14l44 40" strokeDasharray="4 5" />
    </svg>
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
  }, [])
  return (
    <dialog ref={dialog} aria-label={title} onClose={onClose}>
      <div className="spread" style={{ marginBottom: "1rem" }}>
        <h2 style={{ margin: 0 }}>{title}</h2>
        <button type="button" className="plain" aria-label="Close" onClick={onClose}>✕</button>
      </div>
      {children}
    </dialog>
  )
}
