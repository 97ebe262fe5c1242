/** Services without a database, for tests of the HTTP floor. */
import { healthLayer } from "#actors/behaviour/health.ts"
import { AuditLog, AuditTrail } from "#actors/protocol/auth-audit.ts"
import { SecondFactors } from "#actors/protocol/auth-factor.ts"
import { Pairings, PeerTokens } from "#actors/protocol/auth-federation.ts"
import { ManagementAccess, ManagementIps } from "#actors/protocol/auth-network.ts"
import { Smtp } from "#actors/protocol/auth-smtp.ts"
import { Roles, Sessions, Users } from "#actors/protocol/auth-users.ts"
import { MasterKeyRenewal } from "#actors/protocol/auth-vault.ts"
import { AccessTokens, Auth } from "#actors/protocol/auth.ts"
import { Federated, FederatedChannels } from "#actors/protocol/bff-federation.ts"
import { FederatedLives } from "#actors/protocol/bff-live.ts"
import { CameraBackups } from "#actors/protocol/camera-backup.ts"
import { CameraDevices } from "#actors/protocol/camera-device.ts"
import { CameraJobs } from "#actors/protocol/camera-job.ts"
import { MobileCameras, MobilePublishing } from "#actors/protocol/camera-mobile.ts"
import { CameraOffers } from "#actors/protocol/camera-offer.ts"
import { Serving } from "#actors/protocol/camera-serving.ts"
import { TalkBack } from "#actors/protocol/camera-talk.ts"
import { Cameras, StreamAccess } from "#actors/protocol/camera.ts"
import { EventLog } from "#actors/protocol/event.ts"
import { DemoNodes } from "#actors/protocol/federation-demo.ts"
import { Failovers } from "#actors/protocol/federation-failover.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { ClusterMembers } from "#actors/protocol/federation-member.ts"
import { FederationNodes } from "#actors/protocol/federation-node.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBackHome, RecordBackJobs } from "#actors/protocol/federation-recordback.ts"
import { Idempotency } from "#actors/protocol/http.ts"
import { License } from "#actors/protocol/license.ts"
import { PopupRules, Push } from "#actors/protocol/notification-rules.ts"
import { Notifications } from "#actors/protocol/notification.ts"
import { Permissions, ResourceGroups, Resources } from "#actors/protocol/permission.ts"
import { IndexRebuilds, Recordings } from "#actors/protocol/record.ts"
import { Replays } from "#actors/protocol/replay.ts"
import { Search } from "#actors/protocol/search.ts"
import { routes, type ServerOptions } from "#http/server.ts"
import { Hls } from "#media/hls.ts"
import { LiveHls } from "#media/live-hls.ts"
import { RtspGateClosed, RtspServer } from "#media/rtsp-server.ts"
import { Stills } from "#media/still.ts"
import { Storage } from "#media/storage.ts"
import { WebRtcViewers } from "#media/webrtc-viewers.ts"
import { WebRtc } from "#media/webrtc.ts"
import { checkOrigin } from "#schema/auth-network.ts"
import { defaultSecuritySettings } from "#schema/auth-security.ts"
import { UserId } from "#schema/common.ts"
import type { KeptAnswer } from "#schema/http.ts"
import { builtInRoles, type UserPrincipal } from "#schema/permission.ts"
import { DependencyUnavailable, IdempotencyConflict, Unauthenticated } from "#schema/problem.ts"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { type Context, Effect, Layer, Logger, Redacted, Stream } from "effect"
import { HttpRouter } from "effect/http"

export const userId = UserId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a01")

/** A user of a built-in role. */
export const principal = (role: keyof typeof builtInRoles): UserPrincipal => ({
  kind: "user",
  userId,
  username: role,
  sessionId: "0190163d-8694-7395-8ad4-5b8a3f3d0a02",
  grants: [{ role, permissions: builtInRoles[role].permissions, resources: "all" }],
})

/** The tokens `admin`, `operator` and `viewer` are good; all others are not. */
export const namedTokens = Layer.succeed(AccessTokens, {
  verify: (token) => {
    const name = Redacted.value(token)
    return name in builtInRoles ?
      Effect.succeed(principal(name as keyof typeof builtInRoles)) :
      Effect.fail(new Unauthenticated({ message: "The access token is missing, expired or not valid" }))
  },
  jwks: Effect.succeed({ keys: [] }),
  trust: () => Effect.void,
  endSession: () => Effect.void,
  hasEnded: () => Effect.succeed(false),
  untilEnded: () => Effect.never,
  grantsOf: () => Effect.succeed(principal("viewer").grants),
  ended: Stream.never,
  settings: Effect.succeed(defaultSecuritySettings),
})

const unasked = () => Effect.die(new Error("Nobody should ask for this here"))
/** Sign-in of which only some members are expected to be asked. */
export const authWith = (members: Partial<Auth["Service"]>) =>
  Layer.succeed(Auth, {
    login: unasked,
    refresh: unasked,
    logout: unasked,
    heartbeat: unasked,
    profile: unasked,
    updateProfile: unasked,
    changeUsername: unasked,
    changePassword: unasked,
    ...members,
  })
export const noAuth = authWith({})

/** A service of which nothing is expected but to be there. */
export const unaskedService = <I, S extends object>(tag: Context.Key<I, S>): Layer.Layer<I> =>
  Layer.succeed(tag, new Proxy<S>({} as S, { get: () => unasked }))

/** No management address is listed. */
export const anywhere = Layer.succeed(ManagementAccess, {
  check: (origin) => Effect.succeed(checkOrigin([], origin)),
  know: () => Effect.void,
})

/** An audit trail that takes everything and keeps nothing. */
const forgetfulTrail = Layer.succeed(AuditTrail, {
  records: () => false,
  hasRoom: () => true,
  record: () => Effect.succeed(""),
  note: () => Effect.void,
  admit: () => Effect.succeed({ end: () => Effect.void }),
  configure: () => Effect.void,
  queue: {
    read: () => Effect.succeed([]),
    awaitEntry: () => Effect.never,
    acknowledge: () => Effect.void,
    acknowledged: () => 0,
  },
  state: () => ({ queuedBytes: 0, limitBytes: 1, dropped: 0 }),
})

/** Nothing listens. */
const noRtsp = Layer.succeed(RtspServer, {
  port: () => null,
  config: () => ({
    port: null,
    transports: ["tcp"],
    hasAccount: false,
    maxReaders: 1,
    sessionTimeoutSeconds: 60,
    maxBehindBytes: 1,
  }),
  streams: () => [],
  sessions: () => [],
  disconnect: () => 0,
  join: Effect.fail(new RtspGateClosed()),
})

/** A node without other members: nothing is served elsewhere. */
const aloneInCluster = Layer.succeed(Serving, {
  ofStream: () => Effect.succeed(null),
  atHome: () => Effect.succeed(null),
  member: () => Effect.succeed(null),
  slot: () => Effect.fail(new DependencyUnavailable({ dependency: "database", message: "There is none" })),
})

/** Slices whose own tests ask them. */
export const unaskedServices = Layer.mergeAll(
  forgetfulTrail,
  unaskedService(AuditLog),
  unaskedService(PeerTokens),
  unaskedService(Pairings),
  unaskedService(FederationNodes),
  unaskedService(License),
  unaskedService(ClusterMembers),
  unaskedService(PopupRules),
  unaskedService(Push),
  unaskedService(Cameras),
  unaskedService(StreamAccess),
  unaskedService(CameraDevices),
  unaskedService(CameraOffers),
  unaskedService(TalkBack),
  unaskedService(CameraBackups),
  unaskedService(CameraJobs),
  unaskedService(RecordBackHome),
  unaskedService(RecordBackJobs),
  unaskedService(MobileCameras),
  unaskedService(MobilePublishing),
  unaskedService(Recordings),
  unaskedService(IndexRebuilds),
  unaskedService(Search),
  unaskedService(Replays),
  unaskedService(Peers),
  aloneInCluster,
  Layer.mock(Federated, {
    ofReplay: () => Effect.succeed(null),
    gone: () => Effect.succeed(null),
    unmoved: (_id, _grant, text) => Effect.succeed(text),
    departed: () => Effect.succeed(null),
  }),
  unaskedService(FederatedChannels),
  unaskedService(Permissions),
  unaskedService(ResourceGroups),
  unaskedService(Resources),
  unaskedService(Hls),
  unaskedService(LiveHls),
  unaskedService(Stills),
  unaskedService(Storage),
  unaskedService(WebRtc),
  unaskedService(WebRtcViewers),
  noRtsp,
  unaskedService(EventLog),
  unaskedService(Notifications),
  unaskedService(Users),
  unaskedService(Roles),
  unaskedService(Sessions),
  unaskedService(ManagementIps),
  unaskedService(Smtp),
  unaskedService(SecondFactors),
  unaskedService(MasterKeyRenewal),
  unaskedService(Failovers),
  unaskedService(FailoverJournals),
  unaskedService(DemoNodes),
  unaskedService(FederatedLives),
  anywhere,
)

/** Keeps answers in memory. */
export const memoryIdempotency = Layer.sync(Idempotency, () => {
  const answers = new Map<string, { readonly print: string; answer: KeptAnswer | null }>()
  const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString("hex")
  return Idempotency.of({
    begin: (request) =>
      Effect.suspend(() => {
        const known = answers.get(request.key)
        if (known === undefined) {
          answers.set(request.key, { print: hex(request.fingerprint), answer: null })
          return Effect.succeed(null)
        }
        return known.print === hex(request.fingerprint) && known.answer !== null ?
          Effect.succeed(known.answer) :
          Effect.fail(new IdempotencyConflict({ message: "used or running" }))
      }),
    keep: (request, answer) =>
      Effect.sync(() => {
        answers.get(request.key)!.answer = answer
      }),
    forget: (request) =>
      Effect.sync(() => {
        answers.delete(request.key)
      }),
  })
})

export const testHealth = healthLayer({ version: "1", releaseId: "0.0.0", serviceId: "test", description: "A test" })

export const serverOptions: ServerOptions = {
  host: "127.0.0.1",
  port: 0,
  tls: null,
  corsOrigins: [],
  trustedProxies: [],
  dashboard: null,
  graceMs: 500,
  requestTimeoutMs: 30_000,
  maxBodyBytes: 1 << 20,
}

/** The whole HTTP floor without a socket: a function from `Request` to `Response`. */
export const webHandler = (
  options: Partial<ServerOptions> = {},
  /** Services that a test does ask. */
  asked: Layer.Layer<never> | Layer.Layer<unknown> = Layer.empty,
) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.sync(() =>
        HttpRouter.toWebHandler(
          routes({ ...serverOptions, ...options }).pipe(
            Layer.provide([
              namedTokens,
              noAuth,
              memoryIdempotency,
              testHealth,
              unaskedServices,
              NodeHttpServer.layerHttpServices,
              asked as Layer.Layer<never>,
            ]),
            Layer.provideMerge(Logger.layer([])),
          ),
          { disableLogger: true },
        )
      ),
      ({ dispose }) => Effect.promise(dispose),
    ),
    ({ handler }) => (path: string, init: RequestInit & { readonly token?: string } = {}) => {
      const headers = new Headers(init.headers)
      if (init.token !== undefined) headers.set("authorization", `Bearer ${init.token}`)
      return Effect.promise(() => handler(new Request(`http://node.test${path}`, { ...init, headers })))
    },
  )

export const text = (response: Response) => Effect.promise(() => response.text())
/** The JSON body of an answer. */
export const json = (response: Response) => Effect.promise(() => response.json() as Promise<Record<string, unknown>>)
