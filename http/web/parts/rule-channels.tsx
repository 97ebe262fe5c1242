/** Whom a rule tells, and how: in the dashboard, by e-mail, by Web Push, by webhooks. */
import type { RuleFields } from "../rule-input.ts"
import { Check, Text } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { type Choices, type Editing, toggled } from "./rule-filter.tsx"

/** As many as the interface takes beside the three others. */
const mostWebhooks = 5

const Webhooks = ({ fields, set }: Editing) => {
  const { webhooks } = fields
  const change = (index: number, part: Partial<RuleFields["webhooks"][number]>) =>
    set("webhooks", webhooks.map((one, at) => at === index ? { ...one, ...part } : one))
  return (
    <>
      {webhooks.map((webhook, index) => (
        <div key={index} className="stack webhook">
          <Text
            label="Webhook"
            required
            maxLength={2048}
            value={webhook.url}
            onChange={(url) => change(index, { url })}
            placeholder="https://example.org/alerts"
          />
          <div className="row">
            <div className="grow">
              <Text
                label="Secret (optional)"
                type="password"
                autoComplete="new-password"
                value={webhook.secret}
                onChange={(secret) => change(index, { secret })}
                placeholder="kept, or made and shown once"
                pattern="whsec_[A-Za-z0-9+\/]{32,86}={0,2}"
                title="whsec_ and the base64 of 24 to 64 bytes"
              />
            </div>
            <button
              type="button"
              className="danger bottom"
              onClick={() => set("webhooks", webhooks.filter((_, at) => at !== index))}
            >
              <Icon name="remove" />Remove
            </button>
          </div>
        </div>
      ))}
      {webhooks.length < mostWebhooks && (
        <div className="row">
          <button type="button" onClick={() => set("webhooks", [...webhooks, { url: "", secret: "" }])}>
            <Icon name="plus" />Add a webhook
          </button>
        </div>
      )}
    </>
  )
}

const Recipients = ({ choices, fields, set }: Editing & { readonly choices: Choices }) => (
  <details open>
    <summary>
      {fields.roles.length + fields.users.length === 0 ?
        "To nobody yet: choose roles or users" :
        `To ${[...fields.roles, `${fields.users.length} users`].join(", ")}, each as far as he may see the event`}
    </summary>
    <div className="choices scrolls" role="group" aria-label="Recipients" tabIndex={0}>
      {choices.roles.map(({ name }) => (
        <Check
          key={name}
          label={`Everybody with the role ${name}`}
          checked={fields.roles.includes(name)}
          onChange={(on) => set("roles", toggled(fields.roles, name, on))}
        />
      ))}
      {choices.users.map((user) => (
        <Check
          key={user.id}
          label={user.displayName === "" ? user.username : `${user.username} (${user.displayName})`}
          hint={fields.email && user.email === null ? "has no e-mail address" : undefined}
          checked={fields.users.includes(user.id)}
          onChange={(on) => set("users", toggled(fields.users, user.id, on))}
        />
      ))}
      {choices.roles.length + choices.users.length === 0 && (
        <p className="small muted">To choose people one must be allowed to see users.</p>
      )}
    </div>
  </details>
)

export const RuleChannels = ({ choices, fields, set }: Editing & { readonly choices: Choices }) => (
  <fieldset className="choices">
    <legend>How, and to whom</legend>
    <Check label="In the dashboard" checked={fields.inApp} onChange={(on) => set("inApp", on)} />
    <Check
      label="By e-mail"
      hint="Needs a mail server, under Security."
      checked={fields.email}
      onChange={(on) => set("email", on)}
    />
    {fields.email && (
      <Check
        label="With the newest picture"
        checked={fields.attachPicture}
        onChange={(on) => set("attachPicture", on)}
      />
    )}
    <Check
      label="By Web Push"
      hint="To the devices that people have switched on under Notifications."
      checked={fields.webPush}
      onChange={(on) => set("webPush", on)}
    />
    {(fields.inApp || fields.email || fields.webPush) && <Recipients fields={fields} set={set} choices={choices} />}
    <Webhooks fields={fields} set={set} />
  </fieldset>
)
