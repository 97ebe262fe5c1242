/** Cameras as a document to keep. */
import { CameraBackup, Passphrase, passphraseHeader } from "#schema/camera-backup.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, streaming } from "./conventions.ts"

const base = "/camera/api/v1/cameras"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

const exporting = HttpApiEndpoint.get("exportCameras", `${base}/export`, {
  headers: { [passphraseHeader]: Schema.optionalKey(Passphrase) },
  success: CameraBackup,
}).annotateMerge(access("camera:backup", { on: "everything" })).annotateMerge(streaming).annotateMerge(
  audited("export"),
)
  .annotateMerge(
    doc(
      "Export cameras for backup",
      "One document of all cameras with their channels and streams, in their order, as a download. Passwords are in it only where " +
        "the header `nightjar-passphrase` gives a passphrase (percent-encoded UTF-8, at least 12 characters), sealed under it: the " +
        "key is scrypt (RFC 7914) of the passphrase, the seal AES-256-GCM; each opens only beside the addresses it was exported with. " +
        "Without the header they are left out. A document that was cut off is no JSON and lacks `count`.",
    ),
  )

export class CameraBackupGroup extends HttpApiGroup.make("cameraBackup")
  .add(exporting)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Camera backup", description: "Cameras as a document to keep." }))
{}
