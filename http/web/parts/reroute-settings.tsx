/**
 * The settings of failover on this node: each with its value in force and where it comes from.
 *
 * Invariant
 * 1. Only what was set, here or before, is sent: everything else keeps following its default.
 */
import {
  defaultFailoverSettings,
  type EffectiveFailoverSettings,
  type FailoverSettings,
  type FailoverSettingsUpdate,
} from "#schema/federation-failover.ts"
import { useState } from "react"
import { failoverSettings, updateFailoverSettings } from "../api-reroutes.ts"
import { classWords, countOf } from "../reroute-words.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { Check, Field, Form, NumberField, useAction } from "./forms.tsx"
import { Loading, Problem } from "./notes.tsx"

type Name = keyof FailoverSettings
type NumberName = { [K in Name]: FailoverSettings[K] extends number ? K : never }[Name]

type Bounds = readonly [name: NumberName, label: string, min: number, max: number, hint: string]

const detection: ReadonlyArray<Bounds> = [
  ["heartbeatMs", "Heartbeat every, ms", 100, 60_000, "Asked of each other node."],
  ["suspectMs", "Suspicion after, ms", 100, 3_600_000, "Two heartbeats at least."],
  ["deadMs", "Takeover after, ms", 100, 3_600_000, "Of silence; longer than suspicion takes."],
  ["askMs", "Others are asked every, ms", 100, 3_600_000, "While a node is silent or served here."],
  ["rankWaitMs", "Each rank waits, ms", 100, 3_600_000, "Longer than the one before it."],
  ["retryMs", "Tried again after, ms", 100, 3_600_000, "What failed."],
]
const failback: ReadonlyArray<Bounds> = [
  ["stableMs", "Back for, ms", 0, 86_400_000, "Without a break, before it is served at home again by itself."],
  ["overlapMs", "Both record for, ms", 0, 120_000, "0: for two groups of pictures."],
  ["drillMs", "A drill lasts, ms", 1_000, 3_600_000, "Then the cameras are given back."],
  ["recordBackMiB", "Footage comes home at, MiB/s", 0, 1_023, "At most; 0: as the node's configuration says."],
  ["snapshotMinutes", "Configuration fetched every, min", 1, 1_440, "At the latest; each change is fetched at once."],
]
const capacity: ReadonlyArray<Bounds> = [
  ["maxCameras", "Cameras", 1, 10_000, "In all, this node's own included."],
  ["maxIngestBps", "Ingest, bit/s", 1_000_000, 100_000_000_000, "In all."],
  ["maxDiskBytesPerSecond", "Disk writes, bytes/s", 1_000_000, 100_000_000_000, "In all."],
  [
    "maxShadowMemoryBytes",
    "Memory of shadows, bytes",
    16_777_216,
    1_099_511_627_776,
    "Of all cameras that are shadowed.",
  ],
  ["expectedOutageHours", "Outage, h", 1, 720, "Disk space is kept for one so long."],
]

const two = (value: number): string => String(value).padStart(2, "0")
const timeOf = (minute: number): string => `${two(Math.floor(minute / 60) % 24)}:${two(minute % 60)}`
/** Minutes since midnight; null while the field is empty. */
const minuteOf = (text: string): number | null => {
  const [hours, minutes] = text.split(":").map(Number)
  return hours === undefined || minutes === undefined || Number.isNaN(hours + minutes) ? null : hours * 60 + minutes
}
const night = { startMinute: 120, endMinute: 300 }

interface Editing {
  readonly own: FailoverSettingsUpdate
  readonly set: (change: FailoverSettingsUpdate) => void
  readonly unset: (name: Name) => void
}

const Source = ({ name, own, unset, what }: Editing & { readonly name: Name; readonly what: string }) =>
  own[name] === undefined ?
    <span className="small muted">default</span> :
    (
      <span className="small">
        set here ·{" "}
        <button type="button" className="link" aria-label={`Default for ${what}`} onClick={() => unset(name)}>
          default
        </button>
      </span>
    )

const Numbers = ({ legend, list, ...editing }: Editing & {
  readonly legend: string
  readonly list: ReadonlyArray<Bounds>
}) => (
  <fieldset>
    <legend>{legend}</legend>
    <div className="pickers">
      {list.map(([name, label, min, max, hint]) => (
        <div key={name}>
          <NumberField
            label={label}
            min={min}
            max={max}
            hint={hint}
            value={editing.own[name] ?? defaultFailoverSettings[name]}
            onChange={(value) => editing.set({ [name]: value })}
          />
          <Source {...editing} name={name} what={label} />
        </div>
      ))}
    </div>
  </fieldset>
)

const Window = (editing: Editing) => {
  const { own, set } = editing
  const now = own.failbackWindow === undefined ? defaultFailoverSettings.failbackWindow : own.failbackWindow
  return (
    <div className="stack">
      <div>
        <Check
          label="Only at certain hours"
          hint="Of the node's own time zone."
          checked={now !== null}
          onChange={(checked) => set({ failbackWindow: checked ? night : null })}
        />
        <Source {...editing} name="failbackWindow" what="the hours of failback" />
      </div>
      {now !== null && (
        <div className="pickers">
          <Field label="From">
            <input
              type="time"
              required
              value={timeOf(now.startMinute)}
              onChange={({ target }) => {
                const startMinute = minuteOf(target.value)
                if (startMinute !== null) set({ failbackWindow: { ...now, startMinute } })
              }}
            />
          </Field>
          <Field label="To">
            <input
              type="time"
              required
              value={timeOf(now.endMinute)}
              onChange={({ target }) => {
                const endMinute = minuteOf(target.value)
                // Midnight ends a day here.
                if (endMinute !== null) {
                  set({ failbackWindow: { ...now, endMinute: endMinute === 0 ? 1_440 : endMinute } })
                }
              }}
            />
          </Field>
        </div>
      )}
    </div>
  )
}

/** Members of a cluster guard each other by themselves: whether, how, by how many, and which of them this node does not. */
const Members = (editing: Editing) => {
  const { own, set } = editing
  const exceptions = own.membersNotGuarded ?? defaultFailoverSettings.membersNotGuarded
  return (
    <fieldset>
      <legend>Members of the cluster guard each other</legend>
      <div className="stack">
        <div>
          <Check
            label="This node and the other members guard each other by themselves"
            hint="Off: others guard it, and it them, only where somebody says so."
            checked={own.guardMembers ?? defaultFailoverSettings.guardMembers}
            onChange={(guardMembers) => set({ guardMembers })}
          />
          <Source {...editing} name="guardMembers" what="whether members guard each other" />
        </div>
        <div className="pickers">
          <div>
            <Field label="This node is guarded as" hint={classWords[own.memberClass ?? "warm"][1]}>
              <select
                value={own.memberClass ?? defaultFailoverSettings.memberClass}
                onChange={({ target }) => set({ memberClass: target.value === "shadow" ? "shadow" : "warm" })}
              >
                <option value="warm">{classWords.warm[0]}</option>
                <option value="shadow">{classWords.shadow[0]}</option>
              </select>
            </Field>
            <Source {...editing} name="memberClass" what="how this node is guarded" />
          </div>
          <div>
            <NumberField
              label="By so many"
              min={1}
              max={7}
              hint="Those that you chose among them."
              value={own.memberGuardians ?? defaultFailoverSettings.memberGuardians}
              onChange={(memberGuardians) => set({ memberGuardians })}
            />
            <Source {...editing} name="memberGuardians" what="how many guard this node" />
          </div>
        </div>
        {exceptions.length > 0 && (
          <p className="small">
            {countOf(exceptions.length, "member")} released here and not guarded by itself ·{" "}
            <Source {...editing} name="membersNotGuarded" what="members that are not guarded" />
          </p>
        )}
      </div>
    </fieldset>
  )
}

/** What was set before: the others follow their defaults. */
const ownOf = ({ settings, sources }: EffectiveFailoverSettings): FailoverSettingsUpdate =>
  Object.fromEntries(Object.entries(settings).filter(([name]) => sources[name] === "set"))

const SettingsForm = ({ known, onSaved, saved }: {
  readonly known: EffectiveFailoverSettings
  /** What is shown is what was saved last. */
  readonly saved: boolean
  readonly onSaved: (saved: boolean) => void
}) => {
  const allowed = useSession().may("federation:write")
  const [own, setOwn] = useState(() => ownOf(known))
  const action = useAction()
  const set = (change: FailoverSettingsUpdate) => {
    onSaved(false)
    setOwn((old) => ({ ...old, ...change }))
  }
  const unset = (name: Name) => {
    onSaved(false)
    setOwn((old) => Object.fromEntries(Object.entries(old).filter(([one]) => one !== name)))
  }
  const editing = { own, set, unset }
  const save = () => action.run(() => updateFailoverSettings(known, own), () => onSaved(true))
  return (
    <Form
      action={action}
      verb="Save"
      disabled={!allowed}
      onSubmit={save}
      extra={<span className="small muted grow" role="status">{saved ? "Saved." : ""}</span>}
    >
      <fieldset className="bare stack" disabled={!allowed}>
        <Numbers {...editing} legend="When another node counts as failed" list={detection} />
        <Members {...editing} />
        <fieldset>
          <legend>Failback by itself</legend>
          <div className="stack">
            <div>
              <Check
                label="A node that is back gets its cameras back by itself"
                checked={own.failbackAutomatic ?? defaultFailoverSettings.failbackAutomatic}
                onChange={(failbackAutomatic) => set({ failbackAutomatic })}
              />
              <Source {...editing} name="failbackAutomatic" what="failback by itself" />
            </div>
            <Window {...editing} />
          </div>
        </fieldset>
        <Numbers {...editing} legend="Failback, drills, configuration" list={failback} />
        <Numbers {...editing} legend="What this node can take on" list={capacity} />
      </fieldset>
    </Form>
  )
}

export const RerouteSettings = () => {
  const settings = useQuery("failover-settings", failoverSettings, 0)
  const [saved, setSaved] = useState(false)
  const onSaved = (now: boolean) => {
    setSaved(now)
    if (now) settings.refresh()
  }
  return (
    <section className="panel" aria-labelledby="settings">
      <div className="title">
        <h2 id="settings">Settings of this node</h2>
      </div>
      <Problem error={settings.error} />
      {settings.data === null && settings.error === null && <Loading lines={4} />}
      {settings.data !== null && (
        <SettingsForm key={settings.data.version} known={settings.data} saved={saved} onSaved={onSaved} />
      )}
    </section>
  )
}
