/**
 * Texts that a camera writes into its picture: which, where, drawn over the live picture while one is changed.
 *
 * Invariant
 * 1. The frame over the picture is where the text is asked to be; what the camera draws itself comes with the picture.
 */
import { type Osd, osdCorners, type OsdOptions, osdTextKinds } from "#schema/camera-config.ts"
import type { Camera } from "#schema/camera.ts"
import { type PointerEvent, useState } from "react"
import { createPortal } from "react-dom"
import { createOsd, deleteOsd, osdsOf, setOsd } from "../api-camera-config.ts"
import { offered, type Source } from "../api-camera.ts"
import { useQuery } from "../use-query.ts"
import { Asked } from "./camera-section.tsx"
import { Confirm, Field, Form, Text, useAction } from "./forms.tsx"
import { Icon } from "./icons.tsx"
import { RowButtons } from "./row-buttons.tsx"

const kindNames = { plain: "Text", date: "Date", time: "Time", dateAndTime: "Date and time", other: "Other" } as const
const placeNames = {
  upperLeft: "Upper left",
  upperRight: "Upper right",
  lowerLeft: "Lower left",
  lowerRight: "Lower right",
  custom: "Where I drag it",
  other: "Elsewhere",
} as const

type Kind = (typeof osdTextKinds)[number]
type Corner = (typeof osdCorners)[number]

interface Draft {
  readonly kind: Kind
  readonly text: string
  readonly corner: Corner
  /** From -1 (left, bottom) to 1. */
  readonly x: number
  readonly y: number
}

const draftOf = (osd: Osd | null, options: OsdOptions): Draft => {
  const kind = osdTextKinds.find((one) => one === osd?.text?.kind)
  const corner = osdCorners.find((one) => one === osd?.position.kind)
  return {
    kind: kind ?? options.textKinds[0] ?? "plain",
    text: osd?.text?.text ?? "",
    corner: corner ?? options.positions[0] ?? "upperLeft",
    x: osd?.position.x ?? 0,
    y: osd?.position.y ?? 0,
  }
}

const nameOf = ({ imagePath, text, type }: Osd): string => {
  if (type === "image") return `Picture ${imagePath ?? ""}`
  return text?.kind === "plain" ? text.text ?? "" : kindNames[text?.kind ?? "other"]
}

const rounded = (value: number) => Math.round(Math.max(-1, Math.min(1, value)) * 100) / 100

interface FrameProps {
  readonly draft: Draft
  readonly layer: HTMLElement
  readonly onMove: (x: number, y: number) => void
}

/** Where the text is to stand, over the picture; dragged where the place is free. */
const Frame = ({ draft, layer, onMove }: FrameProps) => {
  const free = draft.corner === "custom"
  const drag = (event: PointerEvent<HTMLElement>) => {
    if (!free || event.buttons !== 1) return
    event.currentTarget.setPointerCapture(event.pointerId)
    const box = layer.getBoundingClientRect()
    onMove(
      rounded((event.clientX - box.left) / box.width * 2 - 1),
      rounded(1 - (event.clientY - box.top) / box.height * 2),
    )
  }
  const style = free ? { left: `${(draft.x + 1) * 50}%`, top: `${(1 - draft.y) * 50}%` } : {}
  return createPortal(
    <span
      className={`osd-frame ${draft.corner}`}
      style={style}
      data-testid="osd-frame"
      onPointerDown={drag}
      onPointerMove={drag}
    >
      {draft.kind === "plain" ? draft.text || "Text" : kindNames[draft.kind]}
    </span>,
    layer,
  )
}

interface EditProps {
  readonly camera: Camera
  readonly options: OsdOptions
  /** Null: a new one. */
  readonly osd: Osd | null
  readonly layer: HTMLElement | null
  readonly onDone: () => void
}

const OsdForm = ({ camera, layer, onDone, options, osd }: EditProps) => {
  const [draft, setDraft] = useState(() => draftOf(osd, options))
  const action = useAction()
  const set = (part: Partial<Draft>) => setDraft((old) => ({ ...old, ...part }))
  const corners = options.positions.length === 0 ? osdCorners : options.positions
  const kinds = options.textKinds.length === 0 ? osdTextKinds : options.textKinds
  const isText = osd === null || osd.type === "text"
  const change = {
    position: draft.corner === "custom" ? { kind: draft.corner, x: draft.x, y: draft.y } : { kind: draft.corner },
    ...(isText ? { text: { kind: draft.kind, ...(draft.kind === "plain" ? { text: draft.text } : {}) } } : {}),
  }
  const submit = () =>
    osd === null ?
      createOsd(camera.id, { type: "text", sourceToken: options.sourceToken, ...change }) :
      setOsd(camera.id, osd.token, change)
  return (
    <Form
      action={action}
      verb={osd === null ? "Write it into the picture" : "Change"}
      onSubmit={() => action.run(submit, onDone)}
      onCancel={onDone}
    >
      {isText && (
        <Field label="What">
          <select
            value={draft.kind}
            onChange={(event) => {
              const kind = kinds.find((one) => one === event.target.value)
              if (kind !== undefined) set({ kind })
            }}
          >
            {kinds.map((one) => <option key={one} value={one}>{kindNames[one]}</option>)}
          </select>
        </Field>
      )}
      {isText && draft.kind === "plain" && (
        <Text
          label="Words"
          required
          maxLength={256}
          value={draft.text}
          onChange={(text) => set({ text })}
        />
      )}
      <Field label="Where" hint={draft.corner === "custom" ? "Drag the frame over the picture." : undefined}>
        <select
          value={draft.corner}
          onChange={(event) => {
            const corner = corners.find((one) => one === event.target.value)
            if (corner !== undefined) set({ corner })
          }}
        >
          {corners.map((one) => <option key={one} value={one}>{placeNames[one]}</option>)}
        </select>
      </Field>
      {draft.corner === "custom" && (
        <div className="two">
          {(["x", "y"] as const).map((axis) => (
            <Field key={axis} label={axis === "x" ? "Left −1 to right 1" : "Below −1 to above 1"}>
              <input
                type="number"
                required
                min={-1}
                max={1}
                step={0.01}
                value={Number.isNaN(draft[axis]) ? "" : draft[axis]}
                onChange={(event) =>
                  set({ [axis]: event.target.valueAsNumber })}
              />
            </Field>
          ))}
        </div>
      )}
      {layer !== null && <Frame draft={draft} layer={layer} onMove={(x, y) => set({ x, y })} />}
    </Form>
  )
}

interface Props {
  readonly camera: Camera
  readonly source: Source
  readonly layer: HTMLElement | null
  readonly onPassword: () => void
}

export const Osds = ({ camera, layer, onPassword, source }: Props) => {
  const query = useQuery(`osd ${source.id} ${source.token}`, () => offered(osdsOf(source)), 0)
  const [open, setOpen] = useState<Osd | "new" | null>(null)
  const [deleted, setDeleted] = useState<Osd | null>(null)
  const done = () => {
    setOpen(null)
    setDeleted(null)
    query.refresh()
  }
  return (
    <section className="stack" aria-label="Text in the picture">
      <h2>Text in the picture</h2>
      <Asked query={query} camera={camera} onPassword={onPassword}>
        {({ options, osds }) => (
          <>
            {osds.length === 0 && <p className="muted small">The camera writes nothing into its picture.</p>}
            <ul className="plain-list presets">
              {osds.map((osd) => (
                <li key={osd.token} className="stack tight">
                  <div className="row tight">
                    <span className="grow cut">
                      {nameOf(osd)} <span className="small muted">{placeNames[osd.position.kind].toLowerCase()}</span>
                    </span>
                    <RowButtons name={nameOf(osd)} onEdit={() => setOpen(osd)} onDelete={() => setDeleted(osd)} />
                  </div>
                  {open === osd && <OsdForm camera={camera} options={options} osd={osd} layer={layer} onDone={done} />}
                </li>
              ))}
            </ul>
            {open === "new" ?
              <OsdForm camera={camera} options={options} osd={null} layer={layer} onDone={done} /> :
              options.types.includes("text") && osds.length < (options.maximum.total ?? Infinity) && (
                <div className="actions">
                  <button type="button" onClick={() => setOpen("new")}>
                    <Icon name="plus" />Add a text
                  </button>
                </div>
              )}
          </>
        )}
      </Asked>
      {deleted !== null && (
        <Confirm
          title={`Take ${nameOf(deleted)} out of the picture?`}
          verb="Take it out"
          act={() => deleteOsd(camera.id, deleted.token)}
          onDone={done}
        >
          <p>What is recorded already keeps it.</p>
        </Confirm>
      )}
    </section>
  )
}
