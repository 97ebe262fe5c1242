/** A video encoder of a camera, bounded by what the camera allows. */
import type {
  EncodingOptions,
  Range,
  VideoEncoder,
  VideoEncoderChange,
  VideoEncoderOptions,
} from "#schema/camera-device.ts"
import type { Camera } from "#schema/camera.ts"
import { useState } from "react"
import { encoderOf, offered, setEncoder } from "../api-camera.ts"
import { useQuery } from "../use-query.ts"
import { Asked } from "./camera-section.tsx"
import { codecNames } from "./camera-words.ts"
import { Field, Form, useAction } from "./forms.tsx"

/** What the camera itself is told; bit rates in kilobits, as its own pages have them. */
interface Input {
  readonly encoding: string
  readonly size: string
  readonly quality: number
  readonly frameRate: number
  readonly kilobits: number
  readonly govLength: number
}

const inputOf = (encoder: VideoEncoder): Input => ({
  encoding: encoder.encoding,
  size: `${encoder.width}x${encoder.height}`,
  quality: encoder.quality,
  frameRate: encoder.frameRate ?? Number.NaN,
  kilobits: encoder.bitrateBps === null ? Number.NaN : encoder.bitrateBps / 1000,
  govLength: encoder.govLength ?? Number.NaN,
})

/** Only what differs from what the camera has. */
const changeOf = (encoder: VideoEncoder, input: Input): VideoEncoderChange => {
  const [width = 0, height = 0] = input.size.split("x").map(Number)
  const { encoding } = input
  const bitrateBps = Math.round(input.kilobits * 1000)
  const differs = (value: number, now: number | null) => !Number.isNaN(value) && value !== now
  return {
    ...(encoding !== encoder.encoding && (encoding === "h264" || encoding === "h265" || encoding === "jpeg") ?
      { encoding } :
      {}),
    ...(width !== encoder.width || height !== encoder.height ? { width, height } : {}),
    ...(differs(input.quality, encoder.quality) ? { quality: input.quality } : {}),
    ...(differs(input.frameRate, encoder.frameRate) ? { frameRate: input.frameRate } : {}),
    ...(differs(bitrateBps, encoder.bitrateBps) ? { bitrateBps } : {}),
    ...(differs(input.govLength, encoder.govLength) ? { govLength: input.govLength } : {}),
  }
}

const rangeWords = (range: Range | null, unit: string): string | undefined =>
  range === null ? undefined : `${range.min} to ${range.max}${unit}`

interface BoundedProps {
  readonly label: string
  readonly value: number
  readonly range: Range | null
  readonly unit?: string
  readonly whole?: boolean
  readonly onChange: (value: number) => void
}

/** A number within what the camera allows; absent where it has none. */
const Bounded = ({ label, onChange, range, unit = "", value, whole = false }: BoundedProps) => {
  const [there] = useState(!Number.isNaN(value))
  if (!there) return null
  return (
    <Field label={label} hint={rangeWords(range, unit)}>
      <input
        type="number"
        required
        min={range?.min}
        max={range?.max}
        step={whole ? 1 : "any"}
        value={Number.isNaN(value) ? "" : value}
        onChange={(event) => onChange(event.target.valueAsNumber)}
      />
    </Field>
  )
}

const kilobits = (range: Range | null): Range | null =>
  range === null ? null : { min: range.min / 1000, max: range.max / 1000 }

interface FormProps {
  readonly encoder: VideoEncoder
  readonly options: VideoEncoderOptions
  readonly save: (change: VideoEncoderChange) => Promise<VideoEncoder>
  readonly onSaved: () => void
}

const EncoderForm = ({ encoder, onSaved, options, save }: FormProps) => {
  const [input, setInput] = useState(() => inputOf(encoder))
  const action = useAction()
  const set = (part: Partial<Input>) => setInput((old) => ({ ...old, ...part }))
  const allowed: EncodingOptions | undefined = options.encodings.find((one) => one.encoding === input.encoding)
  const sizes = allowed?.resolutions.map(({ height, width }) => `${width}x${height}`) ?? []
  const choose = (encoding: string) => {
    const next = options.encodings.find((one) => one.encoding === encoding)?.resolutions ?? []
    const [first] = next
    const stays = next.some(({ height, width }) => `${width}x${height}` === input.size)
    set({ encoding, ...(stays || first === undefined ? {} : { size: `${first.width}x${first.height}` }) })
  }
  const change = changeOf(encoder, input)
  const named = (size: string) => size.replace("x", " × ")
  return (
    <Form
      action={action}
      verb="Set encoder"
      disabled={Object.keys(change).length === 0}
      onSubmit={() => action.run(() => save(change), onSaved)}
    >
      <div className="two">
        <Field label="Codec">
          <select value={input.encoding} onChange={(event) => choose(event.target.value)}>
            {(options.encodings.length === 0 ? [encoder.encoding] : options.encodings.map((one) => one.encoding)).map((
              one,
            ) => <option key={one} value={one}>{codecNames[one] ?? one}</option>)}
          </select>
        </Field>
        <Field label="Size">
          <select value={input.size} onChange={(event) => set({ size: event.target.value })}>
            {(sizes.includes(input.size) ? sizes : [input.size, ...sizes]).map((one) => (
              <option key={one} value={one}>{named(one)}</option>
            ))}
          </select>
        </Field>
        <Bounded
          label="Pictures a second"
          value={input.frameRate}
          range={allowed?.frameRate ?? null}
          onChange={(frameRate) => set({ frameRate })}
        />
        <Bounded
          label="Bit rate, kbit/s"
          value={input.kilobits}
          range={kilobits(allowed?.bitrateBps ?? null)}
          onChange={(kilobits) => set({ kilobits })}
        />
        <Bounded
          label="Key picture every"
          unit=" pictures"
          whole
          value={input.govLength}
          range={allowed?.govLength ?? null}
          onChange={(govLength) => set({ govLength })}
        />
        <Bounded
          label="Quality"
          value={input.quality}
          range={allowed?.quality ?? null}
          onChange={(quality) => set({ quality })}
        />
      </div>
      {encoder.useCount > 1 && (
        <p className="small muted">{encoder.useCount} profiles of the camera share this encoder and change with it.</p>
      )}
    </Form>
  )
}

interface Props {
  readonly camera: Camera
  readonly token: string
  readonly title: string
  readonly onPassword: () => void
}

export const Encoder = ({ camera, onPassword, title, token }: Props) => {
  const query = useQuery(`encoder ${camera.id} ${token}`, () => offered(encoderOf(camera.id, token)), 0)
  const [turn, setTurn] = useState(0)
  const [saved, setSaved] = useState(false)
  return (
    <section className="stack panel" aria-label={`Encoder ${title}`}>
      <h2>{title}</h2>
      <Asked query={query} camera={camera} onPassword={onPassword}>
        {({ encoder, options }) => (
          <EncoderForm
            // What the camera answers begins the form anew.
            key={`${turn} ${JSON.stringify(encoder)}`}
            encoder={encoder}
            options={options}
            save={(change) => setEncoder(camera.id, token, change)}
            onSaved={() => {
              setSaved(true)
              setTurn((n) => n + 1)
              query.refresh()
            }}
          />
        )}
      </Asked>
      {saved && <p className="small muted" role="status">The camera has taken it; the stream starts anew.</p>}
    </section>
  )
}
