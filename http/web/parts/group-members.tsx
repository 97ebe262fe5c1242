/** What a resource group holds: cameras and recordings to tick, and whatever else stands in it. */
import type { Camera } from "#schema/camera.ts"
import type { ResourceGroup } from "#schema/permission-groups.ts"
import { type ResourceKey, resourceKey, type ResourceRef } from "#schema/permission.ts"
import { useState } from "react"
import { changeMembers, membersOf } from "../api-access.ts"
import { listCameras, listRecordings } from "../api.ts"
import { useSession } from "../session.tsx"
import { useQuery } from "../use-query.ts"
import { Check, Form, useAction } from "./forms.tsx"
import { Loading, Problem } from "./notes.tsx"

interface Choice {
  readonly ref: ResourceRef
  readonly name: string
  /** What holds it already: a camera that is ticked stands for its channels and recordings. */
  readonly within: ResourceKey | null
}

interface Known {
  readonly members: ReadonlyArray<ResourceRef>
  readonly choices: ReadonlyArray<Choice>
}

const cameraRef = (id: string): ResourceRef => ({ kind: "camera", id })

const ofCamera = (camera: Camera): ReadonlyArray<Choice> => [
  { ref: cameraRef(camera.id), name: camera.name, within: null },
  ...(camera.channels.length < 2 ? [] : camera.channels.map((channel, index): Choice => ({
    ref: { kind: "channel", id: channel.id },
    name: `${camera.name}, channel ${index + 1}`,
    within: resourceKey(cameraRef(camera.id)),
  }))),
]

const load = async (group: ResourceGroup): Promise<Known> => {
  const [members, cameras, recordings] = await Promise.all([membersOf(group.id), listCameras(), listRecordings()])
  const names = new Map<string, string>(cameras.map(({ id, name }) => [id, name]))
  const choices = [
    ...cameras.flatMap(ofCamera),
    ...recordings.map((one): Choice => ({
      ref: { kind: "recording", id: one.id },
      name: names.get(one.cameraId) ?? "Recording of a camera that is gone",
      within: resourceKey(cameraRef(one.cameraId)),
    })),
  ]
  const listed = new Set(choices.map(({ ref }) => resourceKey(ref)))
  const others = members.filter((one) => !listed.has(resourceKey(one)))
  return {
    members,
    choices: [...choices, ...others.map((ref): Choice => ({ ref, name: ref.id, within: null }))],
  }
}

const kinds = [
  ["camera", "Cameras"],
  ["channel", "Channels"],
  ["recording", "Recordings"],
  ["layout", "Layouts"],
  ["file", "Files"],
] as const

interface PickerProps {
  readonly choices: ReadonlyArray<Choice>
  readonly chosen: ReadonlySet<ResourceKey>
  readonly disabled: boolean
  readonly onToggle: (key: ResourceKey, on: boolean) => void
}

const Picker = ({ choices, chosen, disabled, onToggle }: PickerProps) => (
  <div className="choices scrolls" role="group" aria-label="Resources" tabIndex={0}>
    {kinds.map(([kind, name]) => {
      const some = choices.filter(({ ref }) =>
        ref.kind === kind
      )
      return some.length > 0 && (
        <fieldset key={kind} className="bare">
          <legend>{name}</legend>
          {some.map((one) => {
            const key = resourceKey(one.ref)
            const held = one.within !== null && chosen.has(one.within)
            return (
              <Check
                key={key}
                label={one.name}
                hint={held ? "held with its camera" : undefined}
                checked={held || chosen.has(key)}
                disabled={disabled || held}
                onChange={(on) => onToggle(key, on)}
              />
            )
          })}
        </fieldset>
      )
    })}
  </div>
)

interface Props {
  readonly group: ResourceGroup
  readonly onDone: () => void
}

const Members = ({ group, known, onDone }: Props & { readonly known: Known }) => {
  const { may } = useSession()
  const [chosen, setChosen] = useState(() => new Set(known.members.map(resourceKey)))
  const [text, setText] = useState("")
  const action = useAction()
  const before = new Set(known.members.map(resourceKey))
  const refs = known.choices.map(({ ref }) => ref)
  const add = refs.filter((ref) => chosen.has(resourceKey(ref)) && !before.has(resourceKey(ref)))
  const take = refs.filter((ref) => !chosen.has(resourceKey(ref)) && before.has(resourceKey(ref)))
  const toggle = (key: ResourceKey, on: boolean) =>
    setChosen((old) => on ? new Set([...old, key]) : new Set([...old].filter((one) => one !== key)))
  const fitting = known.choices.filter(({ name }) => name.toLowerCase().includes(text.toLowerCase()))
  return (
    <Form
      action={action}
      verb="Save"
      disabled={!may("permission:write") || add.length + take.length === 0}
      onSubmit={() => action.run(() => changeMembers(group.id, add, take), onDone)}
      onCancel={onDone}
    >
      {known.choices.length === 0 && <p className="muted">There is no camera yet that it could hold.</p>}
      {known.choices.length > 8 && (
        <input
          type="search"
          aria-label="Look for a camera"
          placeholder="Name"
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
      )}
      {known.choices.length > 0 && (
        <Picker choices={fitting} chosen={chosen} disabled={!may("permission:write")} onToggle={toggle} />
      )}
    </Form>
  )
}

export const GroupMembers = ({ group, onDone }: Props) => {
  const known = useQuery(`members ${group.id}`, () => load(group), 0)
  if (known.data === null) return known.error === null ? <Loading lines={3} /> : <Problem error={known.error} />
  return <Members group={group} known={known.data} onDone={onDone} />
}
