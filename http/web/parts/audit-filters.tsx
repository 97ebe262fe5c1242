/** What the audit log is narrowed to. */
import { AuditOrigin, AuditOutcome } from "#schema/auth-audit.ts"
import { Schema } from "effect"
import { useState } from "react"
import { Field, Text } from "./forms.tsx"
import { Icon } from "./icons.tsx"

/** As the fields hold it; empty narrows nothing. */
export interface Filter {
  readonly text: string
  readonly user: string
  readonly action: string
  readonly outcome: string
  readonly origin: string
  /** Values of `datetime-local` fields. */
  readonly from: string
  readonly to: string
}

export const emptyFilter: Filter = { text: "", user: "", action: "", outcome: "", origin: "", from: "", to: "" }

const isOutcome = Schema.is(AuditOutcome)
const isOrigin = Schema.is(AuditOrigin)

/** The members of a call that are set. */
export const queryOf = ({ action, from, origin, outcome, text, to, user }: Filter) => ({
  ...(text === "" ? {} : { text }),
  ...(user === "" ? {} : { user }),
  ...(action === "" ? {} : { action }),
  ...(isOutcome(outcome) ? { outcome } : {}),
  ...(isOrigin(origin) ? { origin } : {}),
  ...(from === "" ? {} : { start: new Date(from).getTime() }),
  ...(to === "" ? {} : { end: new Date(to).getTime() }),
})

interface Editing {
  readonly draft: Filter
  readonly set: (key: keyof Filter, value: string) => void
}

const More = ({ draft, set }: Editing) => (
  <div className="pickers">
    <Text
      label="User"
      maxLength={128}
      value={draft.user}
      onChange={(value) => set("user", value)}
      placeholder="admin"
    />
    <Text
      label="Action begins with"
      maxLength={128}
      value={draft.action}
      onChange={(value) => set("action", value)}
      placeholder="camera."
    />
    <Field label="Outcome">
      <select value={draft.outcome} onChange={(event) => set("outcome", event.target.value)}>
        <option value="">any</option>
        <option value="success">success</option>
        <option value="failure">failure</option>
        <option value="refused">refused</option>
      </select>
    </Field>
    <Field label="Seen by">
      <select value={draft.origin} onChange={(event) => set("origin", event.target.value)}>
        <option value="">anybody</option>
        <option value="server">the recorder itself</option>
        <option value="claim">a client, which claims it</option>
      </select>
    </Field>
    <Field label="From">
      <input type="datetime-local" value={draft.from} onChange={(event) => set("from", event.target.value)} />
    </Field>
    <Field label="Until">
      <input type="datetime-local" value={draft.to} onChange={(event) => set("to", event.target.value)} />
    </Field>
  </div>
)

interface Props {
  readonly filter: Filter
  readonly onChange: (filter: Filter) => void
}

export const AuditFilters = ({ filter, onChange }: Props) => {
  const [draft, setDraft] = useState(filter)
  const [known, setKnown] = useState(filter)
  if (known !== filter) {
    setKnown(filter)
    setDraft(filter)
  }
  const narrows = Object.values(filter).some((value) => value !== "")
  return (
    <form
      className="panel stack"
      role="search"
      onSubmit={(event) => {
        event.preventDefault()
        onChange(draft)
      }}
    >
      <div className="row">
        <input
          type="search"
          className="grow"
          aria-label="Text in the entries"
          placeholder="Text in action, name, address, resource or detail"
          maxLength={128}
          value={draft.text}
          onChange={(event) => setDraft({ ...draft, text: event.target.value })}
        />
        <button type="submit">
          <Icon name="search" />Search
        </button>
        {narrows && <button type="button" onClick={() => onChange(emptyFilter)}>Show all</button>}
      </div>
      <details open={narrows}>
        <summary>More filters</summary>
        <More draft={draft} set={(key, value) => setDraft({ ...draft, [key]: value })} />
      </details>
    </form>
  )
}
