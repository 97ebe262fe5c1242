/** Handlers of the group on many cameras: from the contract to {@link CameraJobs}, and nothing else. */
import { CameraJobs } from "#actors/protocol/camera-job.ts"
import { passphraseHeader } from "#schema/camera-backup.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CameraJobGroup } from "../contract/camera-job.ts"
import { acceptedAt, nightjar, pageRequest } from "../contract/conventions.ts"
import { auditDetail } from "./http-audit.ts"

const jobs = "/camera/api/v1/cameras/jobs"

export const CameraJobHandlers = HttpApiBuilder.group(
  nightjar.add(CameraJobGroup),
  "cameraJob",
  Effect.fnUntraced(function*(handlers) {
    const work = yield* CameraJobs
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
      .handle("cameraJob", ({ params }) => work.get(params.job_id))
      .handle("cameraJobItems", ({ params, query }) => work.items(params.job_id, pageRequest(query)))
  }),
)
