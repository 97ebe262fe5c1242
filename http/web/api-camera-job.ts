/** What the pages ask of the node for many cameras at once: backups, imports, and the jobs that do the work. */
import { backupFormat, passphraseHeader } from "#schema/camera-backup.ts"
import type { CameraImport, CameraJobId } from "#schema/camera-job.ts"
import { Redacted } from "effect"
import { call, everything, readFile } from "./api.ts"

/** As the header carries it; empty: none. */
const headersOf = (passphrase: string) =>
  passphrase === "" ? {} : { [passphraseHeader]: Redacted.make(encodeURIComponent(passphrase)) }

/** `passphrase` empty: passwords are left out. */
export const exportCameras = (passphrase: string, onBytes: (bytes: number) => void, signal: AbortSignal) =>
  readFile(
    "/camera/api/v1/cameras/export",
    onBytes,
    signal,
    passphrase === "" ? {} : { [passphraseHeader]: encodeURIComponent(passphrase) },
  )

/** A document of cameras as far as this page must know it; the node looks at the rest. */
export interface Backup {
  readonly document: CameraImport
  /** When it was made, in its own words. */
  readonly exportedAt: string
  readonly sealed: boolean
}

const member = (of: object, name: string): unknown => (of as Readonly<Record<string, unknown>>)[name]

/** Fails with words for a person. */
export const readBackup = async (file: Blob): Promise<Backup> => {
  let json: unknown
  try {
    json = JSON.parse(await file.text())
  } catch {
    throw new Error("This file is no backup of cameras, or it was cut off: it cannot be read as JSON.")
  }
  if (typeof json !== "object" || json === null || member(json, "format") !== backupFormat) {
    throw new Error("This file is no backup of cameras.")
  }
  if (member(json, "version") !== 1) throw new Error("This backup is of a version that this recorder does not know.")
  const cameras = member(json, "cameras")
  if (!Array.isArray(cameras) || cameras.length === 0) throw new Error("There is no camera in this backup.")
  const sealing = (member(json, "sealing") ?? null) as CameraImport["sealing"]
  return {
    document: { format: backupFormat, version: 1, sealing, cameras },
    exportedAt: String(member(json, "exportedAt") ?? ""),
    sealed: sealing !== null,
  }
}

export const planImport = ({ document }: Backup, passphrase: string) =>
  call((api) => api.cameraJob.planImport({ headers: headersOf(passphrase), payload: document }))
export const importCameras = async ({ document }: Backup, passphrase: string) =>
  (await call((api) => api.cameraJob.importCameras({ headers: headersOf(passphrase), payload: document }))).body

export const jobOf = (id: CameraJobId) => call((api) => api.cameraJob.cameraJob({ params: { job_id: id } }))
export const jobItemsOf = (id: CameraJobId) =>
  everything((api, query) => api.cameraJob.cameraJobItems({ params: { job_id: id }, query }))
