/** Which events a rule tells of: types, severity, cameras and resource groups. */
import type { Role, User } from "#schema/auth-users.ts"
import type { Camera } from "#schema/camera.ts"
import { eventTypeNames, eventTypes, Severity } from "#schema/event.ts"
import type { ResourceGroup } from "#schema/permission-groups.ts"
import { Schema } from "effect"
import type { RuleFields } from "../rule-input.ts"
import { Check, Field } from "./forms.tsx"

/** What can be chosen of; empty where one may not see it. */
export interface Choices {
  readonly users: ReadonlyArray<User>
  readonly roles: ReadonlyArray<Role>
  readonly cameras: ReadonlyArray<Camera>
  readonly groups: ReadonlyArray<ResourceGroup>
}

export interface Editing {
  readonly fields: RuleFields
  readonly set: <K extends keyof RuleFields>(key: K, value: RuleFields[K]) => void
}

export const toggled = <A,>(list: ReadonlyArray<A>, one: A, on: boolean): ReadonlyArray<A> =>
  on ? [...list, one] : list.filter((other) => other !== one)

const severityNames = { info: "everything", warning: "warnings and worse", critical: "critical only" } as const

/** A popup of a rule never sets off a rule. */
const types = eventTypeNames.filter((name) => name !== "popup.raised")
const families = [...new Set(types.map((name) => name.split(".")[0] ?? ""))]

const Types = ({ fields, set }: Editing) => (
  <div className="choices scrolls" role="group" aria-label="Types of events" tabIndex={0}>
    {families.map((family) => {
      const whole = `${family}.*`
      const all = fields.types.includes(whole)
      return (
        <div key={family} role="group" aria-label={family}>
          <Check
            label={<strong>All of {family}</strong>}
            checked={all}
            onChange={(on) => set("types", toggled(fields.types, whole, on))}
          />
          {types.filter((name) =>
            name.startsWith(`${family}.`)
          ).map((name) => (
            <Check
              key={name}
              label={eventTypes[name].title}
              hint={eventTypes[name].description.replaceAll("`", "")}
              checked={all || fields.types.includes(name)}
              disabled={all}
              onChange={(on) => set("types", toggled(fields.types, name, on))}
            />
          ))}
        </div>
      )
    })}
  </div>
)

const Places = ({ choices, fields, set }: Editing & { readonly choices: Choices }) => (
  <details open={fields.cameras.length + fields.resourceGroups.length > 0}>
    <summary>
      {fields.cameras.length + fields.resourceGroups.length === 0 ?
        "Wherever it happens" :
        `Only for ${fields.cameras.length} cameras and ${fields.resourceGroups.length} resource groups`}
    </summary>
    <div className="choices scrolls" role="group" aria-label="Cameras and resource groups" tabIndex={0}>
      {choices.groups.map((group) => (
        <Check
          key={group.id}
          label={`Group ${group.name}`}
          checked={fields.resourceGroups.includes(group.id)}
          onChange={(on) => set("resourceGroups", toggled(fields.resourceGroups, group.id, on))}
        />
      ))}
      {choices.cameras.map((camera) => (
        <Check
          key={camera.id}
          label={camera.name}
          checked={fields.cameras.includes(camera.id)}
          onChange={(on) => set("cameras", toggled(fields.cameras, camera.id, on))}
        />
      ))}
      {choices.groups.length + choices.cameras.length === 0 && <p className="small muted">There is no camera yet.</p>}
    </div>
  </details>
)

export const RuleFilterFields = ({ choices, fields, set }: Editing & { readonly choices: Choices }) => (
  <fieldset className="choices">
    <legend>What</legend>
    <Field label="Severity">
      <select
        value={fields.minimumSeverity}
        onChange={({ target: { value } }) => Schema.is(Severity)(value) && set("minimumSeverity", value)}
      >
        {Severity.literals.map((one) => <option key={one} value={one}>{severityNames[one]}</option>)}
      </select>
    </Field>
    <details open={fields.types.length > 0}>
      <summary>{fields.types.length === 0 ? "Events of all types" : "Events of these types"}</summary>
      <Types fields={fields} set={set} />
    </details>
    <Places fields={fields} set={set} choices={choices} />
  </fieldset>
)
