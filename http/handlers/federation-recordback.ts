/** Handlers of record-back: from the contract to {@link RecordBackHome} and {@link RecordBackJobs}. */
import { RecordBackHome, RecordBackJobs } from "#actors/protocol/federation-recordback.ts"
import { SegmentHead, type SegmentsTaken } from "#schema/federation-recordback.ts"
import { BadRequest } from "#schema/problem.ts"
import { Effect, Schema, Stream } from "effect"
import type { Multipart } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { currentPeer } from "../contract/access.ts"
import { nightjar, pageRequest } from "../contract/conventions.ts"
import { RecordBackGroup } from "../contract/federation-recordback.ts"
import { auditDetail } from "./http-audit.ts"

const decodeHead = Schema.decodeUnknownEffect(Schema.fromJsonString(SegmentHead))

const misshapen = () => {
  const message = "Expected the part segment, then the part data"
  return new BadRequest({ message, errors: [{ pointer: "/payload", message }] })
}

export const RecordBackHandlers = HttpApiBuilder.group(
  nightjar.add(RecordBackGroup),
  "federationRecordback",
  Effect.fnUntraced(function*(handlers) {
    const home = yield* RecordBackHome
    const jobs = yield* RecordBackJobs

    /** The head comes first: the data is read as it is written. */
    const receive = Effect.fnUntraced(function*(parts: Stream.Stream<Multipart.Part, Multipart.MultipartError>) {
      const { nodeId } = yield* currentPeer
      let head: SegmentHead | null = null
      let taken: SegmentsTaken | null = null
      yield* Stream.runForEach(
        parts,
        Effect.fnUntraced(function*(part) {
          if (part._tag === "Field" && part.key === "segment" && head === null) {
            head = yield* Effect.mapError(decodeHead(part.value), misshapen)
          } else if (part._tag === "File" && part.key === "data" && head !== null && taken === null) {
            taken = yield* home.take(nodeId, head, part.content)
          } else return yield* misshapen()
        }),
      )
      return taken ?? (yield* misshapen())
    }, Effect.catchTag("MultipartError", () => Effect.fail(misshapen())))

    return handlers
      .handle("transferKey", () => home.transferKey())
      .handle(
        "openSession",
        Effect.fnUntraced(function*({ payload }) {
          const { nodeId } = yield* currentPeer
          yield* auditDetail({ reroute: payload.rerouteId, segments: payload.manifest.length })
          return yield* home.open(nodeId, payload)
        }),
      )
      .handle("pushSegment", ({ payload }) => receive(payload))
      .handle("listJobs", ({ query }) => jobs.list(pageRequest(query)))
      .handle("pauseJob", ({ params }) => jobs.pause(params.id))
      .handle("resumeJob", ({ params }) => jobs.resume(params.id))
      .handle("retryJob", ({ params }) => jobs.retry(params.id))
  }),
)
