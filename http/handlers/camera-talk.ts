/** Handlers of talk-back: from the contract to {@link TalkBack}, and nothing else. */
import { TalkBack } from "#actors/protocol/camera-talk.ts"
import { WebRtc } from "#media/webrtc.ts"
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { CameraTalkGroup } from "../contract/camera-talk.ts"
import { createdAt, nightjar } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"
import { iceLinks } from "./http-ice.ts"

const pathOf = (streamId: string) => `/camera/api/v1/streams/${streamId}/backchannel`

/** Where the caller is, for the audit log. */
const opening = Effect.gen(function*() {
  const info = yield* CurrentRequest
  const request = yield* HttpServerRequest.HttpServerRequest
  return { via: "http" as const, address: info?.address ?? "", userAgent: request.headers["user-agent"] ?? "" }
})

export const CameraTalkHandlers = HttpApiBuilder.group(
  nightjar.add(CameraTalkGroup),
  "cameraTalk",
  Effect.fnUntraced(function*(handlers) {
    const talk = yield* TalkBack
    const { iceServers } = yield* WebRtc
    return handlers
      .handle(
        "openTalk",
        Effect.fnUntraced(function*({ params: { stream_id: id } }) {
          const session = yield* talk.open(id, yield* currentUser, yield* opening)
          return createdAt(pathOf(id), session)
        }),
      )
      .handle("closeTalk", ({ params }) => Effect.flatMap(currentUser, (who) => talk.close(params.stream_id, who)))
      .handle("talkStatus", ({ params }) => Effect.flatMap(currentUser, (who) => talk.status(params.stream_id, who)))
      .handle(
        "offerTalk",
        Effect.fnUntraced(function*({ params: { stream_id: id }, payload }) {
          const { answer, id: peerId } = yield* talk.offer(id, yield* currentUser, payload)
          return HttpServerResponse.text(answer, {
            status: 201,
            contentType: "application/sdp",
            headers: { location: `${pathOf(id)}/whip/${peerId}`, "cache-control": "no-store", ...iceLinks(iceServers) },
          })
        }),
      )
      .handle("hangUpTalk", ({ params }) => Effect.flatMap(currentUser, (who) => talk.close(params.stream_id, who)))
  }),
)
