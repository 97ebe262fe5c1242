/** The sound encoders of a camera. */
import { type AudioEncoder, type AudioEncoderChange, AudioEncoding } from "#schema/camera-config.ts"
import type { Camera } from "#schema/camera.ts"
import { useState } from "react"
import { audioEncodersOf, setAudioEncoder } from "../api-camera-config.ts"
import { offered } from "../api-camera.ts"
import { useQuery } from "../use-query.ts"
import { Asked } from "./camera-section.tsx"
import { Field, Form, NumberField, useAction } from "./forms.tsx"

const names = { g711: "G.711", g726: "G.726", aac: "AAC", opus: "Opus", other: "Another" } as const

const SoundForm = ({ camera, encoder, onSaved }: {
  readonly camera: Camera
  readonly encoder: AudioEncoder
  readonly onSaved: () => void
}) => {
  const [encoding, setEncoding] = useState(encoder.encoding)
  const [kilobits, setKilobits] = useState(encoder.bitrateBps / 1000)
  const [kilohertz, setKilohertz] = useState(encoder.sampleRateHz / 1000)
  const action = useAction()
  const change: AudioEncoderChange = {
    ...(encoding !== encoder.encoding && encoding !== "other" ? { encoding } : {}),
    ...(kilobits * 1000 === encoder.bitrateBps ? {} : { bitrateBps: Math.round(kilobits * 1000) }),
    ...(kilohertz * 1000 === encoder.sampleRateHz ? {} : { sampleRateHz: Math.round(kilohertz * 1000) }),
  }
  return (
    <Form
      action={action}
      verb="Set sound"
      disabled={Object.keys(change).length === 0}
      onSubmit={() => action.run(() => setAudioEncoder(camera.id, encoder.token, change), onSaved)}
    >
      <Field label="Codec" hint="Browsers play G.711 and Opus live, AAC in recordings.">
        <select
          value={encoding}
          onChange={(event) => {
            const chosen = AudioEncoding.literals.find((one) => one === event.target.value)
            if (chosen !== undefined) setEncoding(chosen)
          }}
        >
          {AudioEncoding.literals.filter((one) => one !== "other" || encoder.encoding === "other").map((one) => (
            <option key={one} value={one}>{names[one]}</option>
          ))}
        </select>
      </Field>
      <div className="two">
        <NumberField label="Bit rate, kbit/s" min={1} max={1000} value={kilobits} onChange={setKilobits} />
        <NumberField label="Sample rate, kHz" min={1} max={192} value={kilohertz} onChange={setKilohertz} />
      </div>
    </Form>
  )
}

export const Sound = ({ camera, onPassword }: { readonly camera: Camera; readonly onPassword: () => void }) => {
  const query = useQuery(`sound ${camera.id}`, () => offered(audioEncodersOf(camera.id)), 0)
  const [turn, setTurn] = useState(0)
  const saved = () => {
    setTurn((n) => n + 1)
    query.refresh()
  }
  if (query.data?.kind === "yes" && query.data.value.length === 0) return null
  return (
    <section className="stack panel" aria-label="Sound">
      <h2>Sound</h2>
      <Asked query={query} camera={camera} onPassword={onPassword}>
        {(encoders) => (
          <>
            {encoders.map((encoder) => (
              <SoundForm
                key={`${turn} ${JSON.stringify(encoder)}`}
                camera={camera}
                encoder={encoder}
                onSaved={saved}
              />
            ))}
          </>
        )}
      </Asked>
    </section>
  )
}
