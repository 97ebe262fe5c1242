/** Handlers of the camera backup group. An export streams page by page as the client takes it. */
import { CameraBackups, type CameraExport } from "#actors/protocol/camera-backup.ts"
import { backupFormat, passphraseHeader } from "#schema/camera-backup.ts"
import { Clock, Effect, Stream } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CameraBackupGroup } from "../contract/camera-backup.ts"
import { nightjar } from "../contract/conventions.ts"
import { auditDetail } from "./http-audit.ts"

/** The document's text; `count` comes last, so that a cut shows. */
const textOf = ({ pages, sealing }: CameraExport, exportedAt: string) => {
  let count = 0
  const head = JSON.stringify({ format: backupFormat, version: 1, exportedAt, sealing }).slice(0, -1)
  return Stream.make(`${head},"cameras":[`).pipe(
    Stream.concat(Stream.map(pages, (page) => {
      const text = page.map((camera) => JSON.stringify(camera)).join(",\n")
      const begin = count === 0 || page.length === 0 ? "\n" : ",\n"
      count += page.length
      return begin + text
    })),
    Stream.concat(Stream.suspend(() => Stream.make(`\n],"count":${count}}\n`))),
  )
}

export const CameraBackupHandlers = HttpApiBuilder.group(
  nightjar.add(CameraBackupGroup),
  "cameraBackup",
  Effect.fnUntraced(function*(handlers) {
    const backups = yield* CameraBackups
    return handlers.handle(
      "exportCameras",
      Effect.fnUntraced(function*({ headers }) {
        const passphrase = headers[passphraseHeader] ?? null
        yield* auditDetail({ passwords: passphrase === null ? "left out" : "sealed under a passphrase" })
        const { method } = yield* HttpServerRequest.HttpServerRequest
        const now = new Date(yield* Clock.currentTimeMillis).toISOString()
        const text = textOf(yield* backups.export(passphrase), now)
        return HttpServerResponse.stream(method === "HEAD" ? Stream.empty : Stream.encodeText(text), {
          contentType: "application/json",
          headers: {
            "content-disposition": `attachment; filename="cameras-${now.slice(0, 10)}.json"`,
            "cache-control": "no-store",
          },
        })
      }),
    )
  }),
)
