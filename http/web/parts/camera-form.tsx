/** The form that changes a camera: its name, its addresses, its password. */
import type { Camera } from "#schema/camera.ts"
import { useState } from "react"
import { changeCamera, messageOf } from "../api.ts"
import { Problem } from "./notes.tsx"

/** What the form asks for. An empty password leaves it as it is. */
export interface CameraInput {
  readonly name: string
  readonly sourceUrl: string
  readonly subUrl: string
  readonly transport: "tcp" | "udp"
  readonly username: string
  readonly password: string
}

const inputOf = (camera: Camera): CameraInput => {
  const streams = camera.channels[0]?.streams ?? []
  const main = streams.find((one) => one.role === "main")
  return {
    name: camera.name ?? "",
    sourceUrl: main?.sourceUrl ?? "",
    subUrl: streams.find((one) => one.role === "sub")?.sourceUrl ?? "",
    transport: main?.transport ?? "tcp",
    username: camera.username ?? "",
    password: "",
  }
}

export const CameraForm = ({ camera, onDone }: { readonly camera: Camera; readonly onDone: () => void }) => {
  const [input, setInput] = useState(() => inputOf(camera))
  const [error, setError] = useState<string | null>(null)
  const [busy, setBusy] = useState(false)
  const set = <K extends keyof CameraInput>(key: K, value: CameraInput[K]) =>
    setInput((old) => ({ ...old, [key]: value }))
  const save = async () => {
    setBusy(true)
    setError(null)
    try {
      await changeCamera(camera, input)
      onDone()
    } catch (failure) {
      setError(messageOf(failure))
      setBusy(false)
    }
  }
  return (
    <form
      className="stack"
      onSubmit={(event) => {
        event.preventDefault()
        void save()
      }}
    >
      <label className="field">
        Name
        <input
          name="name"
          value={input.name}
          onChange={(event) => set("name", event.target.value)}
          required
          maxLength={120}
          autoFocus
        />
      </label>
      <label className="field">
        RTSP address
        <input
          name="sourceUrl"
          value={input.sourceUrl}
          onChange={(event) => set("sourceUrl", event.target.value)}
          required
          placeholder="rtsp://192.168.1.20:554/stream1"
          spellCheck={false}
        />
        <span className="hint">Of the best picture the camera offers; this one is recorded.</span>
      </label>
      <label className="field">
        RTSP address of the sub-stream (optional)
        <input
          name="subUrl"
          value={input.subUrl}
          onChange={(event) => set("subUrl", event.target.value)}
          placeholder="rtsp://192.168.1.20:554/stream2"
          spellCheck={false}
        />
      </label>
      <div className="two">
        <label className="field">
          User name
          <input
            name="cameraUser"
            autoComplete="off"
            value={input.username}
            onChange={(event) => set("username", event.target.value)}
          />
        </label>
        <label className="field">
          Password
          <input
            name="cameraPassword"
            type="password"
            autoComplete="new-password"
            value={input.password}
            placeholder={camera.hasPassword ? "unchanged" : ""}
            onChange={(event) => set("password", event.target.value)}
          />
        </label>
      </div>
      <div className="two">
        <label className="field">
          Transport
          <select
            value={input.transport}
            onChange={(event) => set("transport", event.target.value === "udp" ? "udp" : "tcp")}
          >
            <option value="tcp">TCP (loses nothing)</option>
            <option value="udp">UDP</option>
          </select>
        </label>
      </div>
      <Problem error={error} />
      <div className="actions">
        <button type="button" onClick={onDone}>Cancel</button>
        <button className="primary" type="submit" disabled={busy}>
          {busy ? "Saving…" : "Save"}
        </button>
      </div>
    </form>
  )
}
