/** Pieces of forms: fields with a label and a hint, an act that is under way or failed, a question before a destructive one. */
import { type ReactNode, useCallback, useState } from "react"
import { messageOf } from "../api.ts"
import { Icon } from "./icons.tsx"
import { Modal, Problem } from "./notes.tsx"

export interface Action {
  readonly busy: boolean
  /** In words; null while nothing went wrong. */
  readonly error: string | null
  /** Runs one act; `done` is called with its answer unless it fails. */
  readonly run: <A>(act: () => Promise<A>, done?: (answer: A) => void) => void
}

/** Something that a person set off: whether it is under way, and what went wrong. */
export const useAction = (): Action => {
  const [busy, setBusy] = useState(false)
  const [error, setError] = useState<string | null>(null)
  const run = useCallback(<A,>(act: () => Promise<A>, done?: (answer: A) => void) => {
    setBusy(true)
    setError(null)
    act().then((answer) => {
      setBusy(false)
      done?.(answer)
    }, (failure: unknown) => {
      setBusy(false)
      setError(messageOf(failure))
    })
  }, [])
  return { busy, error, run }
}

interface FieldProps {
  readonly label: ReactNode
  readonly hint?: ReactNode
  readonly children: ReactNode
}

export const Field = ({ children, hint, label }: FieldProps) => (
  <label className="field">
    {label} {children}
    {hint !== undefined && " "}
    {hint !== undefined && <span className="hint">{hint}</span>}
  </label>
)

interface TextProps {
  readonly label: ReactNode
  readonly value: string
  readonly onChange: (value: string) => void
  readonly hint?: ReactNode
  readonly type?: "text" | "email" | "password" | "search"
  readonly required?: boolean
  readonly disabled?: boolean
  readonly autoComplete?: string
  readonly maxLength?: number
  readonly minLength?: number
  readonly pattern?: string
  /** What the pattern asks for, in words. */
  readonly title?: string
  readonly placeholder?: string
  readonly name?: string
}

export const Text = ({ hint, label, onChange, type = "text", ...input }: TextProps) => (
  <Field label={label} hint={hint}>
    <input
      {...input}
      type={type}
      spellCheck={false}
      autoComplete={input.autoComplete ?? "off"}
      onChange={(event) => onChange(event.target.value)}
    />
  </Field>
)

interface NumberProps {
  readonly label: string
  readonly value: number
  readonly onChange: (value: number) => void
  readonly min: number
  readonly max: number
  readonly hint?: ReactNode
  readonly disabled?: boolean
}

export const NumberField = ({ hint, label, onChange, value, ...input }: NumberProps) => (
  <Field label={label} hint={hint}>
    <input
      {...input}
      type="number"
      required
      // An empty field stays empty until something is written, and is refused by the browser.
      value={Number.isNaN(value) ? "" : value}
      onChange={(event) =>
        onChange(event.target.valueAsNumber)}
    />
  </Field>
)

interface CheckProps {
  readonly label: ReactNode
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
  readonly disabled?: boolean
  readonly hint?: ReactNode
}

export const Check = ({ checked, disabled = false, hint, label, onChange }: CheckProps) => (
  <label className="check">
    <input
      type="checkbox"
      checked={checked}
      disabled={disabled}
      onChange={(event) => onChange(event.target.checked)}
    />
    <span>
      {label}
      {hint !== undefined && " "}
      {hint !== undefined && <span className="small muted block">{hint}</span>}
    </span>
  </label>
)

interface FormProps {
  readonly action: Action
  readonly onSubmit: () => void
  readonly onCancel?: () => void
  readonly verb: string
  readonly children: ReactNode
  /** More buttons, left of those that end the form. */
  readonly extra?: ReactNode
  readonly disabled?: boolean
}

/** A form with its error and its buttons. */
export const Form = ({ action, children, disabled = false, extra, onCancel, onSubmit, verb }: FormProps) => (
  <form
    className="stack"
    onSubmit={(event) => {
      event.preventDefault()
      onSubmit()
    }}
  >
    {children}
    <Problem error={action.error} />
    <div className="actions">
      {extra}
      {onCancel !== undefined && <button type="button" onClick={onCancel}>Cancel</button>}
      <button className="primary" type="submit" disabled={action.busy || disabled}>
        {action.busy ? "One moment…" : verb}
      </button>
    </div>
  </form>
)

interface ConfirmProps {
  readonly title: string
  readonly verb: string
  readonly act: () => Promise<unknown>
  readonly onDone: (done: boolean) => void
  readonly children: ReactNode
}

/** Asks before something that cannot be undone. */
export const Confirm = ({ act, children, onDone, title, verb }: ConfirmProps) => {
  const { busy, error, run } = useAction()
  return (
    <Modal title={title} onClose={() => onDone(false)}>
      <div className="stack">
        {children}
        <Problem error={error} />
        <div className="actions">
          <button type="button" onClick={() => onDone(false)}>Cancel</button>
          <button type="button" className="danger solid" disabled={busy} onClick={() => run(act, () => onDone(true))}>
            {busy ? "One moment…" : verb}
          </button>
        </div>
      </div>
    </Modal>
  )
}

/** Browsers give the clipboard to pages from https addresses and from this machine only. */
export const clipboard = window.isSecureContext

/** A text that is shown once, with a button that copies it. */
export const Copyable = ({ label, text }: { readonly label: string; readonly text: string }) => {
  const [copied, setCopied] = useState(false)
  const copy = () => void navigator.clipboard.writeText(text).then(() => setCopied(true), () => setCopied(false))
  return (
    <div className="copyable">
      <code className="mono" aria-label={label}>{text}</code>
      {clipboard && (
        <button type="button" onClick={copy} aria-label={`Copy ${label.toLowerCase()}`}>
          <Icon name="copy" />
          {copied ? "Copied" : "Copy"}
        </button>
      )}
    </div>
  )
}

/** Links to pages that belong together. */
export const Tabs = ({ label, now, tabs }: {
  readonly label: string
  readonly now: string
  readonly tabs: ReadonlyArray<readonly [href: string, name: string]>
}) => (
  <nav className="tabs" aria-label={label}>
    {tabs.map(([href, name]) => (
      <a key={href} href={`#/${href}`} aria-current={href === now ? "page" : undefined}>{name}</a>
    ))}
  </nav>
)
