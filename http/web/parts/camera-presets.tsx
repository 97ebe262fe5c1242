/** Positions that a camera keeps: go there, keep the present one, replace, delete. */
import type { PtzPreset } from "#schema/camera-device.ts"
import type { Camera } from "#schema/camera.ts"
import { useState } from "react"
import { gotoPreset, offered, presetsOf, removePreset, setPreset, type Target } from "../api-camera.ts"
import { useQuery } from "../use-query.ts"
import { Asked } from "./camera-section.tsx"
import { Confirm, Form, Text, useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { Modal, Problem } from "./notes.tsx"
import { RowButtons } from "./row-buttons.tsx"

interface KeepProps {
  readonly target: Target
  /** Null: a new one. */
  readonly preset: PtzPreset | null
  readonly onDone: () => void
}

const KeepForm = ({ onDone, preset, target }: KeepProps) => {
  const [name, setName] = useState(preset?.name ?? "")
  const action = useAction()
  return (
    <Form
      action={action}
      verb={preset === null ? "Keep position" : "Replace"}
      onSubmit={() => action.run(() => setPreset(target, name.trim(), preset?.token ?? null), onDone)}
      onCancel={onDone}
    >
      <Text
        label="Name"
        required
        maxLength={64}
        value={name}
        onChange={setName}
        hint={preset === null ?
          "The camera keeps where it looks now under this name." :
          "The camera keeps where it looks now instead. To change the name alone, go there first."}
      />
    </Form>
  )
}

interface RowProps {
  readonly target: Target
  readonly preset: PtzPreset
  readonly onOpen: (open: Open) => void
}

const Row = ({ onOpen, preset, target }: RowProps) => {
  const action = useAction()
  const name = preset.name === "" ? preset.token : preset.name
  return (
    <li>
      <div className="row tight">
        <button
          type="button"
          className="goto grow"
          disabled={action.busy}
          onClick={() => action.run(() => gotoPreset(target, preset.token))}
          aria-label={`Go to ${name}`}
          title={`Go to ${name}`}
        >
          <span className="cut">{name}</span>
        </button>
        <RowButtons
          name={name}
          onEdit={() => onOpen({ kind: "keep", preset })}
          onDelete={() => onOpen({ kind: "delete", preset })}
        />
      </div>
      <Problem error={action.error} />
    </li>
  )
}

type Open = { readonly kind: "keep"; readonly preset: PtzPreset | null } | {
  readonly kind: "delete"
  readonly preset: PtzPreset
}

interface Props {
  readonly camera: Camera
  readonly target: Target
  readonly onPassword: () => void
}

export const Presets = ({ camera, onPassword, target }: Props) => {
  const query = useQuery(`presets ${target.id} ${target.profileToken}`, () => offered(presetsOf(target)), 30_000)
  const [open, setOpen] = useState<Open | null>(null)
  const done = () => {
    setOpen(null)
    query.refresh()
  }
  return (
    <section className="stack" aria-label="Presets">
      <div className="spread">
        <h2>Presets</h2>
        {query.data?.kind === "yes" && (
          <button type="button" onClick={() => setOpen({ kind: "keep", preset: null })}>
            <Icon name="plus" />Keep this position
          </button>
        )}
      </div>
      <Asked query={query} camera={camera} onPassword={onPassword}>
        {(presets) =>
          presets.length === 0 ?
            <p className="muted small">None yet. Turn the camera, then keep the position.</p> :
            (
              <ul className="plain-list presets">
                {presets.map((preset) => <Row key={preset.token} target={target} preset={preset} onOpen={setOpen} />)}
              </ul>
            )}
      </Asked>
      {open?.kind === "keep" && (
        <Modal
          title={open.preset === null ? "Keep this position" : `Replace ${open.preset.name}`}
          onClose={() => setOpen(null)}
        >
          <KeepForm target={target} preset={open.preset} onDone={done} />
        </Modal>
      )}
      {open?.kind === "delete" && (
        <Confirm
          title={`Delete ${open.preset.name}?`}
          verb="Delete"
          act={() => removePreset(target, open.preset.token)}
          onDone={done}
        >
          <p>The camera forgets this position. This cannot be undone.</p>
        </Confirm>
      )}
    </section>
  )
}
