/** Handlers of the group of what cameras offer: from the contract to {@link CameraOffers}, and nothing else. */
import { CameraOffers } from "#actors/protocol/camera-offer.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { CameraOfferGroup } from "../contract/camera-offer.ts"
import { nightjar } from "../contract/conventions.ts"

const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })

export const CameraOfferHandlers = HttpApiBuilder.group(
  nightjar.add(CameraOfferGroup),
  "cameraOffer",
  Effect.fnUntraced(function*(handlers) {
    const offers = yield* CameraOffers
    return handlers
      .handle("capabilities", ({ params }) => Effect.map(offers.ofCamera(params.id), whole))
      .handle("setCapability", ({ params, payload }) =>
        Effect.flatMap(currentUser, ({ username }) => offers.setOfCamera(params.id, payload, username)))
      .handle("channelCapabilities", ({ params }) =>
        Effect.map(offers.ofChannel(params.channel_id), whole))
      .handle(
        "setChannelCapability",
        ({ params, payload }) =>
          Effect.flatMap(currentUser, ({ username }) => offers.setOfChannel(params.channel_id, payload, username)),
      )
      .handle(
        "discoverChannels",
        ({ params, payload }) => Effect.map(offers.discoverChannels(params.id, payload.apply ?? false), whole),
      )
      .handle(
        "discoverStreams",
        ({ params, payload }) => offers.discoverStreams(params.channel_id, payload.apply ?? false),
      )
  }),
)
