/**
 * The picture of a camera: levels within its own ranges, set while they are pulled and seen in the live picture beside.
 *
 * Invariant
 * 1. One change is on its way at a time; what is pulled meanwhile is sent together {@link restMs} after the last pull.
 */
import { type ImagingChange, imagingLevels, type ImagingOptions, type ImagingSettings } from "#schema/camera-device.ts"
import type { Camera } from "#schema/camera.ts"
import { useEffect, useRef, useState } from "react"
import { imagingOf, offered, setImaging, type Source } from "../api-camera.ts"
import { messageOf } from "../api.ts"
import { useQuery } from "../use-query.ts"
import { Asked } from "./camera-section.tsx"
import { Field } from "./forms.tsx"
import { Problem } from "./notes.tsx"

const restMs = 250

const names = {
  brightness: "Brightness",
  colorSaturation: "Colour",
  contrast: "Contrast",
  sharpness: "Sharpness",
} as const
const filters = { auto: "By the light", on: "Day: filter in", off: "Night: infrared is seen" } as const

/** The settings as they are or are about to be, and a way to change them. */
const useImaging = (source: Source, first: ImagingSettings) => {
  const [settings, setSettings] = useState(first)
  const [error, setError] = useState<string | null>(null)
  const pending = useRef<ImagingChange>({})
  const timer = useRef(0)
  const busy = useRef(false)
  const send = () => {
    if (busy.current || Object.keys(pending.current).length === 0) return
    const change = pending.current
    pending.current = {}
    busy.current = true
    setImaging(source, change).then((now) => {
      setError(null)
      // What was pulled meanwhile is newer than this answer.
      setSettings({ ...now, ...pending.current })
    }, (failure: unknown) => setError(messageOf(failure))).finally(() => {
      busy.current = false
      send()
    })
  }
  const change = (part: ImagingChange) => {
    pending.current = { ...pending.current, ...part }
    setSettings((old) => ({ ...old, ...part }))
    window.clearTimeout(timer.current)
    timer.current = window.setTimeout(send, restMs)
  }
  useEffect(() => () => window.clearTimeout(timer.current), [])
  return { settings, error, change }
}

interface SlidersProps {
  readonly source: Source
  readonly first: ImagingSettings
  readonly options: ImagingOptions
}

/** A level's steps: whole ones where the range is wide, a hundredth of it where it is narrow. */
const stepOf = ({ max, min }: { readonly min: number; readonly max: number }) => max - min > 10 ? 1 : (max - min) / 100

const Sliders = ({ first, options, source }: SlidersProps) => {
  const { change, error, settings } = useImaging(source, first)
  const shown = imagingLevels.filter((level) => settings[level] !== null && options[level] !== null)
  const before: ImagingChange = Object.fromEntries(shown.map((level) => [level, first[level]]))
  const changed = shown.some((level) => settings[level] !== first[level]) || settings.irCutFilter !== first.irCutFilter
  const filter = first.irCutFilter
  return (
    <div className="stack">
      {shown.map((level) => {
        const range = options[level]!
        return (
          <label key={level} className="level">
            <span>{names[level]}</span>
            <span className="number" aria-hidden="true">{settings[level]}</span>
            <input
              type="range"
              min={range.min}
              max={range.max}
              step={stepOf(range)}
              value={settings[level]!}
              onChange={(event) => change({ [level]: event.target.valueAsNumber })}
            />
          </label>
        )
      })}
      {settings.irCutFilter !== null && options.irCutFilters.length > 1 && (
        <Field label="Infrared filter">
          <select
            value={settings.irCutFilter}
            onChange={(event) => {
              const chosen = options.irCutFilters.find((one) => one === event.target.value)
              if (chosen !== undefined) change({ irCutFilter: chosen })
            }}
          >
            {options.irCutFilters.map((one) => <option key={one} value={one}>{filters[one]}</option>)}
          </select>
        </Field>
      )}
      {shown.length === 0 && filter === null && <p className="muted small">The camera offers nothing to set here.</p>}
      <Problem error={error} />
      <div className="actions">
        <button
          type="button"
          disabled={!changed}
          onClick={() => change(filter === null ? before : { ...before, irCutFilter: filter })}
        >
          Put back as it was
        </button>
      </div>
    </div>
  )
}

interface Props {
  readonly camera: Camera
  readonly source: Source
  readonly onPassword: () => void
}

export const Imaging = ({ camera, onPassword, source }: Props) => {
  const query = useQuery(`imaging ${source.id} ${source.token}`, () => offered(imagingOf(source)), 0)
  return (
    <section className="stack" aria-label="Image">
      <h2>Image</h2>
      <Asked query={query} camera={camera} onPassword={onPassword}>
        {({ options, settings }) => <Sliders source={source} first={settings} options={options} />}
      </Asked>
    </section>
  )
}
