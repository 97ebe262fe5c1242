/** A file of a replay, from this node's disks or on its way from another node. */
import { AccessTokens } from "#actors/protocol/auth.ts"
import type { FileFound, RelayedMedia } from "#actors/protocol/bff-federation.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { Hls } from "#media/hls.ts"
import type { StorageError } from "#media/storage.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { sendMedia, sendText } from "./replay-media.ts"

/** The disk is in trouble; which one and why is in the log, not in the answer. */
export const diskTrouble = (error: StorageError) =>
  Effect.andThen(
    Effect.logWarning("Footage could not be read", error.message),
    Effect.fail(
      new DependencyUnavailable({
        dependency: "storage",
        message: "The footage cannot be read from its disk at the moment.",
      }),
    ),
  )

const pass = ({ body, headers, status }: RelayedMedia) => HttpServerResponse.stream(body, { status, headers })

export const makeSendFound = Effect.gen(function*() {
  const [hls, recordings, tokens] = yield* Effect.all([Hls, Recordings, AccessTokens])
  return Effect.fnUntraced(function*(found: FileFound) {
    if (found.kind === "relayed") return pass(found.media)
    const { file } = found
    const media = yield* hls.resource(file, file.filename)
    if (media.kind === "media") return yield* sendMedia(media, tokens.untilEnded(file.loginSessionId))
    return sendText(media.render(yield* Effect.orElseSucceed(recordings.gaps(file.token, media.interval), () => [])))
  }, Effect.catchTag("StorageError", diskTrouble))
})
