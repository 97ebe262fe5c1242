/** Handlers of the group on many cameras: from the contract to {@link CameraJobs}, and nothing else. */
import { CameraJobs } from "#actors/protocol/camera-job.ts"
import { passphraseHeader } from "#schema/camera-backup.ts"
import { type CameraJobId, CameraJobNotFound } from "#schema/camera-job.ts"
import { reach } from "#schema/permission.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal } from "../contract/access.ts"
import { CameraJobGroup } from "../contract/camera-job.ts"
import { acceptedAt, nightjar, pageRequest } from "../contract/conventions.ts"
import { auditDetail } from "./http-audit.ts"

const jobs = "/camera/api/v1/cameras/jobs"

export const CameraJobHandlers = HttpApiBuilder.group(
  nightjar.add(CameraJobGroup),
  "cameraJob",
  Effect.fnUntraced(function*(handlers) {
    const work = yield* CameraJobs
    /** A job is the cameras it works on: whose roles do not reach them all is told that there is no such job. */
    const guard = Effect.fnUntraced(function*(id: CameraJobId) {
      const within = reach(yield* CurrentPrincipal, "camera:write")
      if (within !== "all" && !(yield* work.isOf(id, within.camera))) return yield* new CameraJobNotFound({ id })
    })
    return handlers
      .handle(
        "bulkAdd",
        Effect.fnUntraced(function*({ payload }) {
          const job = yield* work.addBulk(payload)
          yield* auditDetail({ job: job.id, hosts: payload.cameras.map(({ host }) => host) })
          return acceptedAt(`${jobs}/${job.id}`, job)
        }),
      )
      .handle("planImport", ({ headers, payload }) => work.planImport(payload, headers[passphraseHeader] ?? null))
      .handle(
        "importCameras",
        Effect.fnUntraced(function*({ headers, payload }) {
          const job = yield* work.addImport(payload, headers[passphraseHeader] ?? null)
          yield* auditDetail({ job: job.id, cameras: payload.cameras.length })
          return acceptedAt(`${jobs}/${job.id}`, job)
        }),
      )
      .handle("cameraJob", ({ params }) => Effect.andThen(guard(params.job_id), work.get(params.job_id)))
      .handle(
        "cameraJobItems",
        ({ params, query }) => Effect.andThen(guard(params.job_id), work.items(params.job_id, pageRequest(query))),
      )
  }),
)
