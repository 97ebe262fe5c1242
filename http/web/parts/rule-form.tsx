/** The form of a popup rule: what it is told of, when, how it looks, whom and by which channels. */
import type { PopupRule, WrittenRule } from "#schema/notification-rules.ts"
import { useState } from "react"
import { createRule, updateRule } from "../api-rules.ts"
import { fieldsOf, inputOf, type RuleFields } from "../rule-input.ts"
import { play, sounds } from "../sounds.ts"
import { Check, Copyable, Field, Form, NumberField, Text, useAction } from "./forms.tsx"
import { RuleChannels } from "./rule-channels.tsx"
import { type Choices, type Editing, RuleFilterFields } from "./rule-filter.tsx"
import { WeekGrid } from "./week-grid.tsx"

/** Stretches that a schedule can hold. */
const mostWindows = 28

const zones = Intl.supportedValuesOf("timeZone")

const When = ({ fields, set }: Editing) => (
  <fieldset className="choices">
    <legend>When</legend>
    <label className="check">
      <input type="radio" checked={fields.always} onChange={() => set("always", true)} />
      Always
    </label>
    <label className="check">
      <input type="radio" checked={!fields.always} onChange={() => set("always", false)} />
      At these hours
    </label>
    {!fields.always && (
      <>
        {fields.fine !== null && (
          <p className="small muted">
            This schedule is finer than hours:{" "}
            {fields.fine.map(({ end, start }) => `${start} to ${end}`).join(", ")}. It stays so unless you paint.
          </p>
        )}
        <WeekGrid
          week={fields.week}
          onChange={(week) => {
            set("fine", null)
            set("week", week)
          }}
        />
        <Field label="By the clock of">
          <select value={fields.timeZone} onChange={(event) => set("timeZone", event.target.value)}>
            {!zones.includes(fields.timeZone) && <option>{fields.timeZone}</option>}
            {zones.map((name) => <option key={name}>{name}</option>)}
          </select>
        </Field>
      </>
    )}
    <NumberField
      label="Not again for the same camera within, seconds"
      min={0}
      max={86_400}
      value={fields.cooldownSeconds}
      onChange={(value) => set("cooldownSeconds", value)}
      hint="0: each time."
    />
  </fieldset>
)

const Looks = ({ fields, set }: Editing) => (
  <fieldset className="choices">
    <legend>In the dashboard</legend>
    <div className="two">
      <Field label="Sound">
        <select
          value={fields.sound ?? ""}
          onChange={(event) => {
            const sound = sounds.find((one) => one === event.target.value) ?? null
            set("sound", sound)
            if (sound !== null) play(sound)
          }}
        >
          <option value="">silent</option>
          {sounds.map((name) => <option key={name}>{name}</option>)}
        </select>
      </Field>
      <Field label="Colour">
        <input
          type="color"
          value={fields.colour === "" ? "#f5b942" : fields.colour}
          disabled={fields.colour === ""}
          onChange={(event) => set("colour", event.target.value)}
        />
      </Field>
    </div>
    <Check
      label="The colour of the severity"
      checked={fields.colour === ""}
      onChange={(on) => set("colour", on ? "" : "#f5b942")}
    />
  </fieldset>
)

const Secrets = ({ onDone, rule }: { readonly rule: WrittenRule; readonly onDone: () => void }) => (
  <div className="stack">
    <p>
      <strong>Keep these secrets.</strong>{" "}
      The receiver proves with them that a message comes from here (Standard Webhooks). They are shown now and never
      again.
    </p>
    {rule.newSecrets.map(({ secret, url }) => (
      <div key={url} className="stack">
        <span className="small mono cut">{url}</span>
        <Copyable label="Secret" text={secret} />
      </div>
    ))}
    <div className="actions">
      <button type="button" className="primary" onClick={onDone}>Done</button>
    </div>
  </div>
)

interface Props {
  /** Null: a new one. */
  readonly rule: PopupRule | null
  readonly choices: Choices
  readonly onDone: () => void
}

export const RuleForm = ({ choices, onDone, rule }: Props) => {
  const [fields, setFields] = useState<RuleFields>(() => fieldsOf(rule))
  const [written, setWritten] = useState<WrittenRule | null>(null)
  const action = useAction()
  const editing: Editing = { fields, set: (key, value) => setFields((old) => ({ ...old, [key]: value })) }
  if (written !== null) return <Secrets rule={written} onDone={onDone} />
  const input = inputOf(fields)
  const never = input.schedule?.windows.length === 0
  const tooMany = (input.schedule?.windows.length ?? 0) > mostWindows
  const save = () =>
    action.run(
      () => rule === null ? createRule(input) : updateRule(rule, input),
      (answer) => answer.newSecrets.length === 0 ? onDone() : setWritten(answer),
    )
  return (
    <Form
      action={action}
      verb={rule === null ? "Add rule" : "Save"}
      disabled={input.channels.length === 0 || never || tooMany}
      onSubmit={save}
      onCancel={onDone}
    >
      <Text
        label="Name"
        required
        maxLength={128}
        value={fields.name}
        onChange={(value) => editing.set("name", value)}
      />
      <RuleFilterFields {...editing} choices={choices} />
      <When {...editing} />
      <RuleChannels {...editing} choices={choices} />
      {fields.inApp && <Looks {...editing} />}
      <Check label="Active" checked={fields.active} onChange={(value) => editing.set("active", value)} />
      {input.channels.length === 0 && <p className="small muted">Choose at least one way to tell it.</p>}
      {tooMany && <p className="small muted">The hours are too scattered: at most {mostWindows} different stretches.
      </p>}
      {never && <p className="small muted">Paint at least one hour.</p>}
    </Form>
  )
}
