/**
 * Handlers of footage that another member reads here.
 *
 * Invariant
 * 1. Who may see it is judged by the member that asks, as of any footage that it has itself; nobody but members asks.
 */
import { Storage } from "#media/storage.ts"
import { FootageFileNotFound, mostFootageBytes, mostFootageFiles } from "#schema/federation-footage.ts"
import { Forbidden, InvalidInput } from "#schema/problem.ts"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { currentPeer } from "../contract/access.ts"
import { nightjar } from "../contract/conventions.ts"
import { FederationFootageGroup } from "../contract/federation-footage.ts"

const member = Effect.gen(function*() {
  const { relation } = yield* currentPeer
  if (relation !== "member") return yield* new Forbidden({ message: "Only members of the cluster do this" })
})

export const FederationFootageHandlers = HttpApiBuilder.group(
  nightjar.add(FederationFootageGroup),
  "federationFootage",
  Effect.fnUntraced(function*(handlers) {
    const storage = yield* Storage
    return handlers
      .handle("listFootage", ({ query: { end, recordingId, start } }) =>
        Effect.gen(function*() {
          yield* member
          if (end <= start) return yield* InvalidInput.at("/query/end", "must lie after the start")
          return { items: storage.files(recordingId, { start, end }).slice(0, mostFootageFiles) }
        }))
      .handle("footageIndex", ({ params: { fileId: id }, query: { folder } }) =>
        Effect.gen(function*() {
          yield* member
          const items = yield* storage.index({ id, folder }).pipe(
            Effect.mapError(() => new FootageFileNotFound({ id })),
          )
          return { items }
        }))
      .handle("footageBytes", ({ params: { fileId: id }, query: { folder, from, to } }) =>
        Effect.gen(function*() {
          yield* member
          if (to < from || to - from > mostFootageBytes) {
            return yield* InvalidInput.at("/query/to", "must not lie before `from`, nor more than 16 MiB behind it")
          }
          if (storage.path({ id, folder }) === "") return yield* new FootageFileNotFound({ id })
          return HttpServerResponse.stream(storage.bytes({ id, folder }, { from, to }), {
            contentType: "application/octet-stream",
            headers: { "cache-control": "no-store" },
          })
        }))
  }),
)
