/** Cameras that are about to be added: found on the network, or written down by hand. */
import type { DiscoveredDevice } from "#schema/camera-device.ts"
import type { CameraId } from "#schema/common.ts"

interface Known {
  /** Tells candidates apart. */
  readonly key: string
  /** What it is called until somebody names it. */
  readonly title: string
  readonly model: string
  /** The camera that it is already. */
  readonly cameraId: CameraId | null
}

export type Candidate =
  | Known & { readonly kind: "onvif"; readonly host: string; readonly port: number }
  | Known & { readonly kind: "rtsp"; readonly url: string; readonly subUrl: string }

/** For a person. */
export const addressOf = (candidate: Candidate): string =>
  candidate.kind === "rtsp" ? candidate.url.replace(/\/\/[^@/]*@/, "//") : `${candidate.host}:${candidate.port}`

export const candidateOf = ({ cameraId, host, location, model, name, port }: DiscoveredDevice): Candidate => ({
  kind: "onvif",
  key: `${host}:${port}`,
  title: (name.trim() || model.trim() || host).slice(0, 120),
  model: [model, location].filter((part) => part !== "" && part !== name).join(", "),
  cameraId,
  host,
  port,
})

/** Where ONVIF is spoken unless the address says otherwise. */
const httpPort = 80

/**
 * `192.168.1.20`, `camera.example:8080`, `http://192.168.1.20/` (a camera that speaks ONVIF), or `rtsp://…` (a stream). Null: none
 * of these.
 */
export const candidateOfText = (text: string, subUrl: string): Candidate | null => {
  const written = text.trim()
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(written)?.[1]?.toLowerCase() ?? "none"
  if (!["none", "http", "rtsp", "rtsps"].includes(scheme)) return null
  const url = URL.parse(scheme === "none" ? `http://${written}` : written.replace(/^\w+:/, "http:"))
  if (url === null) return null
  const host = url.hostname.replace(/^\[|\]$/g, "")
  const known = { title: host, model: "", cameraId: null }
  if (scheme.startsWith("rtsp")) return { ...known, kind: "rtsp", key: written, url: written, subUrl: subUrl.trim() }
  const port = url.port === "" ? httpPort : Number(url.port)
  return { ...known, kind: "onvif", key: `${host}:${port}`, host, port }
}
