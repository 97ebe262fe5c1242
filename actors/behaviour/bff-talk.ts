/**
 * Talking to cameras of other nodes: held there, kept alive from here.
 *
 * Invariants
 * 1. A session there is renewed every {@link renewEvery} while its talker may talk, and ended when he may not; where this node cannot say
 *    so, it ends there by itself.
 * 2. Of one talker and channel there is one.
 */
import type { AccessTokens } from "#actors/protocol/auth.ts"
import type { FederatedChannels } from "#actors/protocol/bff-federation.ts"
import type { FederatedLives, WhepRelayed } from "#actors/protocol/bff-live.ts"
import { mayStill } from "#actors/protocol/camera-watch.ts"
import type { Peers } from "#actors/protocol/federation-peer.ts"
import { TalkBackNotOpen, TalkSession } from "#schema/camera-talk.ts"
import { ChannelNotFound } from "#schema/camera.ts"
import type { ChannelId, NodeId } from "#schema/common.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { Duration, Effect, type Scope, Stream } from "effect"
import { sdpOf, strange } from "./bff-whep.ts"

const renewEvery = Duration.seconds(3)
/** Longer than the other node waits for a camera. */
const patience = Duration.seconds(15)

interface Held {
  readonly nodeId: NodeId
  readonly path: string
  readonly channelId: ChannelId
  readonly who: UserPrincipal
}

const keyOf = (id: ChannelId, { sessionId }: UserPrincipal) => `${id}/${sessionId}`

export const makeTalk = Effect.fnUntraced(
  function*(
    peers: Peers["Service"],
    channels: FederatedChannels["Service"],
    tokens: AccessTokens["Service"],
  ): Effect.fn.Return<Pick<FederatedLives["Service"], "openTalk" | "offerTalk" | "closeTalk">, never, Scope.Scope> {
    const scope = yield* Effect.scope
    const all = new Map<string, Held>()

    const ask = ({ nodeId, path, who }: Held, method: "POST" | "DELETE", below: string) =>
      Effect.scoped(peers.send(nodeId, { method, path: `${path}${below}`, onBehalfOf: who.username }))

    const keep = (key: string, held: Held) =>
      Effect.gen(function*() {
        const { channelId, who: { sessionId, userId } } = held
        const grant = { sessionId, userId, resource: [{ kind: "channel", id: channelId }] as const }
        while (all.get(key) === held) {
          yield* Effect.sleep(renewEvery)
          if (all.get(key) !== held) return
          const goesOn = (yield* mayStill(tokens, "camera:talk", grant)) &&
            (yield* ask(held, "POST", "/renew").pipe(
              Effect.as(true),
              Effect.catchTags({
                PeerUnreachable: () => Effect.succeed(true),
                DependencyUnavailable: () => Effect.succeed(true),
              }),
              Effect.catch(() => Effect.succeed(false)),
            ))
          if (goesOn || all.get(key) !== held) continue
          all.delete(key)
          yield* Effect.ignore(ask(held, "DELETE", ""))
        }
      })

    const heldBy = (id: ChannelId, who: UserPrincipal) => {
      const held = all.get(keyOf(id, who))
      return held === undefined ? Effect.fail(new TalkBackNotOpen()) : Effect.succeed(held)
    }

    return {
      openTalk: Effect.fn("FederatedLives.openTalk")(function*(id, who) {
        const channel = yield* channels.get(id)
        if (channel === null) return yield* new ChannelNotFound({ id })
        const { nodeId, remoteChannelId } = channel
        const path = `/federation/api/v1/federation/channels/${remoteChannelId}/talk`
        const session = yield* peers.call(
          nodeId,
          { method: "POST", path, onBehalfOf: who.username, timeout: patience },
          TalkSession,
        ).pipe(Effect.catchTag("NodeNotFound", strange))
        const [key, held] = [keyOf(id, who), { nodeId, path, channelId: id, who }]
        all.set(key, held)
        yield* Effect.forkIn(keep(key, held), scope)
        return { ...session, whipUrl: `/bff/api/v1/federation-channels/${id}/talk/whip` }
      }),
      offerTalk: Effect.fn("FederatedLives.offerTalk")(function*(id, who, offer) {
        const { nodeId, path } = yield* heldBy(id, who)
        const bytes = Buffer.from(offer)
        return yield* Effect.scoped(Effect.gen(function*() {
          const { body, headers } = yield* peers.send(nodeId, {
            method: "POST",
            path: `${path}/whip`,
            body: { stream: Stream.make(bytes), contentType: "application/sdp", contentLength: bytes.length },
            onBehalfOf: who.username,
            timeout: patience,
          }).pipe(Effect.catchTag("NodeNotFound", strange))
          return {
            answer: yield* sdpOf(nodeId, body),
            sound: null,
            links: headers["link"] ?? null,
          } satisfies WhepRelayed
        }))
      }),
      closeTalk: Effect.fn("FederatedLives.closeTalk")(function*(id, who) {
        const held = yield* heldBy(id, who)
        all.delete(keyOf(id, who))
        yield* Effect.ignore(ask(held, "DELETE", ""))
      }),
    }
  },
)
