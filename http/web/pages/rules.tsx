/** Popup rules: which events alert whom, when and how; switching them, testing them, what they delivered. */
import type { PopupRule } from "#schema/notification-rules.ts"
import { useState } from "react"
import { listGroups } from "../api-access.ts"
import { deleteRule, listRules, testRule, toggleRule } from "../api-rules.ts"
import { listRoles, listUsers } from "../api-users.ts"
import { listCameras } from "../api.ts"
import { titleOf } from "../event-words.ts"
import { Confirm, useAction } from "../parts/forms.tsx"
import { Icon } from "../parts/icons.tsx"
import { Badge, Empty, Loading, Modal, Problem } from "../parts/notes.tsx"
import { RowButtons } from "../parts/row-buttons.tsx"
import { channelNames, Deliveries, TestOutcome } from "../parts/rule-deliveries.tsx"
import { RuleForm } from "../parts/rule-form.tsx"
import { useSession } from "../session.tsx"
import { lengthOf, second } from "../time.ts"
import { useQuery } from "../use-query.ts"

type Open =
  | { readonly kind: "add"; readonly rule: null }
  | { readonly kind: "edit" | "delete" | "test" | "deliveries"; readonly rule: PopupRule }

const severities = { info: "everything", warning: "warnings and worse", critical: "critical only" } as const

const typesOf = ({ filter }: PopupRule): string =>
  filter.types.length === 0 ?
    "all events" :
    filter.types.map((type) => type.endsWith(".*") ? `all of ${type.slice(0, -2)}` : titleOf(type)).join(", ")

const peopleOf = ({ recipients: { roles, users } }: PopupRule): string =>
  [
    ...roles.map((role) => `role ${role}`),
    ...(users.length === 0 ? [] : [`${users.length} ${users.length === 1 ? "user" : "users"}`]),
  ].join(", ") || "nobody"

const Facts = ({ rule }: { readonly rule: PopupRule }) => (
  <dl className="details">
    <div>
      <dt>What</dt>
      <dd>{typesOf(rule)}; {severities[rule.filter.minimumSeverity]}</dd>
    </div>
    <div>
      <dt>When</dt>
      <dd>
        {rule.schedule === null ? "always" : `at set hours, ${rule.schedule.timeZone}`}
        {rule.cooldownSeconds > 0 && `; once in ${lengthOf(rule.cooldownSeconds * second)}`}
      </dd>
    </div>
    <div>
      <dt>To</dt>
      <dd>{peopleOf(rule)}</dd>
    </div>
    <div>
      <dt>By</dt>
      <dd>
        {rule.channels.map((one) => channelNames[one.kind]).join(", ")}
        {rule.channels.some((one) => one.kind === "webhook" && one.disabledAt !== null) && (
          <Badge state="fail" text="a webhook is switched off: its address is gone" />
        )}
      </dd>
    </div>
  </dl>
)

const Entry = ({ onChange, onOpen, rule }: {
  readonly rule: PopupRule
  readonly onOpen: (open: Open) => void
  readonly onChange: () => void
}) => {
  const { may } = useSession()
  const action = useAction()
  return (
    <article className="panel stack" aria-label={rule.name}>
      <div className="spread">
        <div className="row">
          {rule.colour !== null && <i className="dot" style={{ background: rule.colour }} />}
          <h2>{rule.name}</h2>
          <Badge state={rule.active ? "ok" : "idle"} text={rule.active ? "active" : "switched off"} />
        </div>
        <div className="actions">
          {may("notification:write") && (
            <>
              <button type="button" onClick={() => onOpen({ kind: "test", rule })}>
                <Icon name="bell" />Test
              </button>
              <button type="button" disabled={action.busy} onClick={() => action.run(() => toggleRule(rule), onChange)}>
                {rule.active ? "Switch off" : "Switch on"}
              </button>
            </>
          )}
          <button type="button" onClick={() => onOpen({ kind: "deliveries", rule })}>Deliveries</button>
          {may("notification:write") && (
            <RowButtons
              name={rule.name}
              onEdit={() => onOpen({ kind: "edit", rule })}
              onDelete={() => onOpen({ kind: "delete", rule })}
            />
          )}
        </div>
      </div>
      <Problem error={action.error} />
      <Facts rule={rule} />
    </article>
  )
}

const TestDialog = ({ onDone, rule }: { readonly rule: PopupRule; readonly onDone: () => void }) => {
  const test = useQuery(`test ${rule.id}`, () => testRule(rule), 0)
  return (
    <Modal title={`Test of ${rule.name}`} onClose={onDone}>
      <div className="stack">
        {test.data === null && test.error === null && <p className="muted" role="status">Sending by all channels…</p>}
        <Problem error={test.error} />
        {test.data !== null && <TestOutcome test={test.data} />}
        <div className="actions">
          <button type="button" onClick={test.refresh}>Once more</button>
          <button type="button" className="primary" onClick={onDone}>Done</button>
        </div>
      </div>
    </Modal>
  )
}

const FormDialog = ({ onDone, rule }: { readonly rule: PopupRule | null; readonly onDone: () => void }) => {
  const { may } = useSession()
  const choices = useQuery("rule choices", async () => {
    const [users, roles, cameras, groups] = await Promise.all([
      may("user:read") ? listUsers() : [],
      may("user:read") ? listRoles() : [],
      may("camera:read") ? listCameras() : [],
      may("permission:read") ? listGroups() : [],
    ])
    return { users, roles, cameras, groups }
  }, 0)
  return (
    <Modal title={rule === null ? "Add a rule" : `Edit ${rule.name}`} onClose={onDone}>
      <Problem error={choices.error} />
      {choices.data === null && choices.error === null && <Loading lines={5} />}
      {choices.data !== null && <RuleForm rule={rule} choices={choices.data} onDone={onDone} />}
    </Modal>
  )
}

const Dialogs = ({ onDone, open }: { readonly open: Open; readonly onDone: () => void }) => {
  if (open.kind === "test") return <TestDialog rule={open.rule} onDone={onDone} />
  if (open.kind === "deliveries") {
    return (
      <Modal title={`Deliveries of ${open.rule.name}`} onClose={onDone}>
        <Deliveries rule={open.rule} />
      </Modal>
    )
  }
  if (open.kind === "delete") {
    return (
      <Confirm title={`Delete ${open.rule.name}?`} verb="Delete" act={() => deleteRule(open.rule)} onDone={onDone}>
        <p>What waits to be delivered for it is not delivered any more. This cannot be undone.</p>
      </Confirm>
    )
  }
  return <FormDialog rule={open.rule} onDone={onDone} />
}

export const RulesPage = () => {
  const { may } = useSession()
  const rules = useQuery("rules", listRules, 5000)
  const [open, setOpen] = useState<Open | null>(null)
  const done = () => {
    setOpen(null)
    rules.refresh()
  }
  const add = may("notification:write") && (
    <button
      type="button"
      className="primary"
      onClick={() => setOpen({ kind: "add", rule: null })}
    >
      <Icon name="plus" />Add a rule
    </button>
  )
  return (
    <>
      <div className="head">
        <h1>Alert rules</h1>
        {(rules.data?.length ?? 0) > 0 && add}
      </div>
      <Problem error={rules.error} />
      {rules.data === null && rules.error === null && <Loading lines={4} />}
      {rules.data?.length === 0 && (
        <Empty icon="rules" title="No rule yet">
          <p>
            A rule alerts people when something happens: a camera fails at night, a disk is in trouble. It tells them in
            the dashboard, by e-mail with a picture, by Web Push or by a webhook.
          </p>
          {add}
        </Empty>
      )}
      <div className="list">
        {rules.data?.map((rule) => <Entry key={rule.id} rule={rule} onOpen={setOpen} onChange={rules.refresh} />)}
      </div>
      {open !== null && <Dialogs open={open} onDone={done} />}
    </>
  )
}
