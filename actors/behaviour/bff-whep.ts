/**
 * Offers of WebRTC that are passed on to the node that serves the channel, and kept alive there.
 *
 * Invariants
 * 1. A session there is renewed every {@link renewEvery} while its viewer may watch, and ended when he may not; where this node cannot say
 *    so, it ends there by itself.
 * 2. An answer has {@link mostAnswerBytes} at most.
 */
import type { FederatedLives, WhepRelayed } from "#actors/protocol/bff-live.ts"
import type { Peers } from "#actors/protocol/federation-peer.ts"
import type { FederatedSessionId } from "#schema/bff-federation.ts"
import type { LiveSessionNotFound } from "#schema/camera-live.ts"
import type { ChannelId, EpochMs, NodeId, StreamId } from "#schema/common.ts"
import { PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { StreamRole } from "#schema/record.ts"
import { Duration, Effect, type Scope, Stream } from "effect"

const renewEvery = Duration.seconds(3)
const mostAnswerBytes = 64 * 1024
/** Longer than the other node waits for a camera. */
const patience = Duration.seconds(15)
const place = /^\/federation\/api\/v1\/federation\/streams\/[0-9a-f-]{36}\/whep\/[A-Za-z0-9_-]{24}$/

type Door = FederatedLives["Service"]

/** Of one who watches another node's channel. */
export interface Session {
  readonly nodeId: NodeId
  readonly channelId: ChannelId
  readonly remoteChannelId: ChannelId
  readonly role: StreamRole
  /** As that node knows it. */
  readonly streamId: StreamId
  readonly who: UserPrincipal
  askedAt: EpochMs
  /** Path of the WebRTC session at that node; null: there is none. */
  whep: string | null
  /** The session of HLS at that node; null: none was asked for, or it has ended. */
  hls: { readonly sessionId: string; readonly master: string } | null
}

export const strange = ({ nodeId }: { readonly nodeId: string }) =>
  Effect.fail(new PeerUnreachable({ nodeId, reason: "it is not paired with this node any more" }))

/** The text of an answer in SDP. */
export const sdpOf = Effect.fnUntraced(function*(nodeId: Session["nodeId"], body: Stream.Stream<Uint8Array, unknown>) {
  const parts = yield* Stream.runCollect(Stream.take(body, 256)).pipe(Effect.orElseSucceed(() => []))
  const whole = Buffer.concat([...parts])
  if (whole.length > 0 && whole.length <= mostAnswerBytes) return whole.toString("utf8")
  return yield* new PeerRefused({
    nodeId,
    theirStatus: 201,
    theirCode: "bad_answer",
    reason: "it answers no offer",
  })
})

export const makeWhep = Effect.fnUntraced(
  function*(
    peers: Peers["Service"],
    sessionOf: (id: FederatedSessionId) => Effect.Effect<Session, LiveSessionNotFound | DependencyUnavailable>,
  ): Effect.fn.Return<Pick<Door, "whep" | "endWhep">, never, Scope.Scope> {
    const scope = yield* Effect.scope

    const hangUp = Effect.fnUntraced(function*(session: Session) {
      const { nodeId, whep } = session
      session.whep = null
      if (whep !== null) yield* Effect.ignore(Effect.scoped(peers.send(nodeId, { method: "DELETE", path: whep })))
    })

    /** Until it is hung up, here or there. */
    const keep = (id: FederatedSessionId, session: Session, there: string) =>
      Effect.gen(function*() {
        let goesOn = true
        while (goesOn) {
          yield* Effect.sleep(renewEvery)
          if (session.whep !== there) return
          goesOn = yield* sessionOf(id).pipe(
            Effect.andThen(Effect.scoped(peers.send(session.nodeId, { method: "POST", path: `${there}/renew` }))),
            Effect.as(true),
            // Where it cannot be said, that node ends it by itself.
            Effect.catchTags({
              PeerUnreachable: () => Effect.succeed(true),
              DependencyUnavailable: () => Effect.succeed(true),
            }),
            Effect.catch(() => Effect.succeed(false)),
          )
        }
        if (session.whep === there) yield* hangUp(session)
      })

    return {
      whep: Effect.fn("FederatedLives.whep")(function*(id, offer) {
        const session = yield* sessionOf(id)
        yield* hangUp(session)
        const { nodeId, streamId, who } = session
        const bytes = Buffer.from(offer)
        return yield* Effect.scoped(Effect.gen(function*() {
          const { body, headers } = yield* peers.send(nodeId, {
            method: "POST",
            path: `/federation/api/v1/federation/streams/${streamId}/whep`,
            body: { stream: Stream.make(bytes), contentType: "application/sdp", contentLength: bytes.length },
            onBehalfOf: who.username,
            timeout: patience,
          }).pipe(Effect.catchTag("NodeNotFound", strange))
          const answer = yield* sdpOf(nodeId, body)
          const location = headers["location"] ?? ""
          if (place.test(location)) {
            session.whep = location
            yield* Effect.forkIn(keep(id, session, location), scope)
          }
          return {
            answer,
            sound: headers["nightjar-sound"] ?? null,
            links: headers["link"] ?? null,
          } satisfies WhepRelayed
        }))
      }),
      endWhep: Effect.fn("FederatedLives.endWhep")(function*(id) {
        yield* hangUp(yield* sessionOf(id))
      }),
    }
  },
)
