/** What the audit log records beside changes of state and exports, and for how long it keeps it. */
import type { AuditSettings, AuditSettingsUpdate } from "#schema/auth-audit.ts"
import { useState } from "react"
import { auditSettings, updateAuditSettings } from "../api-audit.ts"
import { useQuery } from "../use-query.ts"
import { Check, Form, NumberField, useAction } from "./forms.tsx"
import { Loading, Problem } from "./notes.tsx"

const Fields = ({ known, onDone }: { readonly known: AuditSettings; readonly onDone: () => void }) => {
  const { version: _, ...before } = known
  const [input, setInput] = useState<AuditSettingsUpdate>(before)
  const action = useAction()
  const set = (change: Partial<AuditSettingsUpdate>) => setInput((old) => ({ ...old, ...change }))
  return (
    <Form
      action={action}
      verb="Save"
      onSubmit={() => action.run(() => updateAuditSettings(known, input), onDone)}
      onCancel={onDone}
    >
      <p className="muted small">Changes of state and exports are always recorded. Beside them:</p>
      <Check
        label="Sign-ins and sign-outs"
        checked={input.recordSignIns}
        onChange={(recordSignIns) => set({ recordSignIns })}
      />
      <Check
        label="Who watched recorded pictures"
        checked={input.recordViews}
        onChange={(recordViews) => set({ recordViews })}
      />
      <Check
        label="What was refused"
        checked={input.recordRefusals}
        onChange={(recordRefusals) => set({ recordRefusals })}
      />
      <NumberField
        label="Keep entries for, days"
        min={1}
        max={3650}
        value={input.retentionDays}
        onChange={(retentionDays) => set({ retentionDays })}
        hint="Older ones go, the oldest first; the chain stays provable from the oldest that is kept."
      />
    </Form>
  )
}

export const AuditSettingsForm = ({ onDone }: { readonly onDone: () => void }) => {
  const settings = useQuery("audit-settings", auditSettings, 0)
  if (settings.data === null) {
    return settings.error === null ?
      <Loading lines={4} /> :
      <Problem error={settings.error} />
  }
  return <Fields known={settings.data} onDone={onDone} />
}
