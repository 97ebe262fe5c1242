/**
 * A node that recorded and the home node of its footage, without HTTP between them: real disks, a real PostgreSQL (one, as in a
 * cluster: no row of theirs is the other's), the real services; what is asked of the other node goes through the multipart form it has on the wire.
 */
import * as Home from "#actors/behaviour/federation-recordback-home.ts"
import * as Back from "#actors/behaviour/federation-recordback.ts"
import { Events } from "#actors/protocol/event.ts"
import { type PeerAnswer, type PeerRequest, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBackHome, RecordBackJobs, RecordBacks } from "#actors/protocol/federation-recordback.ts"
import { Recordings, RecordLedger } from "#actors/protocol/record.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { RecordBackHomeStore } from "#actors/store/federation-recordback-home.ts"
import { RecordBackStore } from "#actors/store/federation-recordback.ts"
import { NodeIdentity, type NodeKey } from "#cluster/identity.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { type FileIdentity, Storage } from "#media/storage.ts"
import { layer as storageLayer } from "#media/storage/live.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import { NodeId, type RecordingId } from "#schema/common.ts"
import { SegmentHead, SessionRequest } from "#schema/federation-recordback.ts"
import { type Fingerprint, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { slots } from "#schema/ownership.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"
import { Context, Effect, Layer, type Redacted, Schema, Stream } from "effect"
import { Multipart } from "effect/http"
import { generateKeyPairSync } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { postgresLayer } from "./harness/postgres.ts"
import { optionsIn } from "./media/storage-life.ts"

export const homeId = NodeId.make("01934b3e-000e-7000-8000-00000000aaaa")
export const servingId = NodeId.make("01934b3e-000e-7000-8000-00000000bbbb")
const slot = slots[3]!
/** The home node served with 1, the other one with 2, the home node again with 3. */
export const epochs = { before: 1, away: 2, now: 3 }

const keyOf = (kind: "ed25519" | "x25519"): NodeKey => {
  const { privateKey, publicKey } = kind === "ed25519" ? generateKeyPairSync("ed25519") : generateKeyPairSync("x25519")
  return { privateKey, publicKey: publicKey.export({ format: "jwk" }).x ?? "" }
}

export interface Side {
  readonly nodeId: NodeId
  readonly root: string
  readonly url: Redacted.Redacted
  readonly identity: NodeIdentity["Service"]
  /** Rows that its index was told of. */
  readonly adopted: Array<SegmentFile>
  readonly released: Array<SegmentFile>
  gaps: ReadonlyArray<LedgerGap>
  /** Types of events. */
  readonly told: Array<string>
  /** Of footage on its way home, as its administrator set it. */
  limitMiB: number
  /** Runs when its index is told of a file that came home; may never return. */
  adopting: Effect.Effect<void>
  /** What its gap ledger was told. */
  readonly amended: Array<
    { readonly recordingId: RecordingId } & Parameters<RecorderSupervisor["Service"]["amend"]>[1]
  >
}

const sideOf = Effect.fnUntraced(function*(nodeId: NodeId, url: Redacted.Redacted) {
  const root = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-recordback-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
  )
  const identity = NodeIdentity.of({
    nodeId,
    createdMs: 0,
    signing: keyOf("ed25519"),
    transfer: keyOf("x25519"),
  })
  return {
    nodeId,
    root,
    url,
    identity,
    adopted: [],
    adopting: Effect.void,
    released: [],
    gaps: [],
    amended: [],
    told: [],
    limitMiB: 0,
  } as Side
})

/** Two sides and a PostgreSQL, for as long as the scope. */
export const stage = Effect.gen(function*() {
  const folder = yield* Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-recordback-pg-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
  )
  const postgres = yield* Layer.build(postgresLayer({ dataFolder: folder, copies: join(folder, "copies") }))
  const url = yield* Context.get(postgres, EmbeddedPostgres).url
  return {
    home: yield* sideOf(homeId, url),
    serving: yield* sideOf(servingId, url),
  }
})

/** What every node of the stage is made from besides its part in record-back. */
const ground = (side: Side, recordings: ReadonlyArray<FileIdentity>) =>
  Layer.mergeAll(
    Layer.succeed(NodeIdentity, side.identity),
    Layer.mock(Ownership, {
      nodeId: side.nodeId,
      slot,
      entityId: (id) => id,
      epochOf: () => Effect.succeed(epochs.now),
      owners: Effect.succeed([{
        slot,
        nodeId: homeId,
        homeNodeId: homeId,
        address: "",
        epoch: epochs.now,
        adopted: false,
      }]),
    }),
    Layer.mock(FailoverStore, {
      settings: () => Effect.succeed({ settings: { recordBackMiB: side.limitMiB }, version: 1 }),
    }),
    Layer.mock(Events, { publish: (draft) => Effect.sync(() => void side.told.push(draft.type)) }),
    Layer.mock(RecordLedger, {
      recordingsOf: (asked) =>
        Effect.succeed(new Set(asked === slot ? recordings.map(({ recordingId }) => recordingId) : [])),
      adopted: (files) =>
        Effect.andThen(Effect.suspend(() => side.adopting), Effect.sync(() => void side.adopted.push(...files))),
      released: (files) => Effect.sync(() => void side.released.push(...files)),
      gapsOf: (id) => Effect.succeed(side.gaps.filter(({ recordingId }) => recordingId === id)),
    }),
    Layer.mock(Recordings, {
      get: (id) => {
        const found = recordings.find(({ recordingId }) => recordingId === id)
        return found === undefined ? Effect.die("no such recording") : Effect.succeed({
          id,
          recordingToken: found.recordingToken,
          channelId: found.channelId,
        } as never)
      },
    }),
    Layer.mock(RecorderSupervisor, {
      gaps: () => side.gaps,
      amend: (recordingId, told) => Effect.sync(() => void side.amended.push({ recordingId, ...told })),
      status: () => null,
      statuses: () => [],
      secrets: { name: "", keys: Effect.succeed(new Set<string>()), reseal: Effect.void },
    }),
    storageLayer(optionsIn(side.root)),
    Layer.mergeAll(RecordBackStore.layer, RecordBackHomeStore.layer).pipe(
      Layer.provideMerge(Database.layer({ url: side.url, applicationName: "test", maxConnections: 4 })),
    ),
  )

/** The other node as it is asked: null while it is away. */
export interface Line {
  home: RecordBackHome["Service"] | null
  /** Runs before a segment is handed on; may never return. */
  onSegment: (head: SegmentHead) => Effect.Effect<void>
  readonly sent: Array<string>
  /** How far the home node's clock goes ahead of the other's. */
  aheadMs: number
}

export const line = (): Line => ({ home: null, onSegment: () => Effect.void, sent: [], aheadMs: 0 })

const decodeHead = Schema.decodeUnknownEffect(Schema.fromJsonString(SegmentHead))
const decodeSession = Schema.decodeUnknownEffect(SessionRequest)
const known = (side: Side) => ({
  nodeId: side.nodeId,
  name: "n",
  relation: "peer" as const,
  address: "",
  fingerprint: "a".repeat(43) as Fingerprint,
  signingKey: side.identity.signing.publicKey,
  transferKey: side.identity.transfer.publicKey,
  mediaReadEnforcement: true,
  guardianGranted: true,
})

const answer = Effect.fnUntraced(function*(to: Line, from: NodeId, request: PeerRequest) {
  const away = new PeerUnreachable({ nodeId: homeId, reason: "it is switched off" })
  const { home } = to
  if (home === null) return yield* away
  const { body, path } = request
  if (path.endsWith("/transfer-key")) {
    const key = yield* home.transferKey()
    return { ...key, clockMs: key.clockMs + to.aheadMs }
  }
  if (path.endsWith("/sessions")) {
    const json = body !== undefined && "json" in body ? body.json : null
    return yield* home.open(from, yield* Effect.orDie(decodeSession(json)))
  }
  if (body === undefined || !("stream" in body)) return yield* Effect.die(new Error("a segment without a body"))
  const parts = Stream.pipeThroughChannel(body.stream, Multipart.makeChannel({ "content-type": body.contentType }))
  let head: SegmentHead | null = null
  let taken: unknown = null
  yield* Stream.runForEach(
    parts,
    Effect.fnUntraced(function*(part) {
      if (part._tag === "Field") {
        head = yield* Effect.orDie(decodeHead(part.value))
        to.sent.push(`${head.recordingId}/${head.sequence}`)
        yield* to.onSegment(head)
      } else if (head !== null) taken = yield* home.take(from, head, part.content)
    }),
  )
  // It died while it worked.
  return to.home === home ? taken : yield* away
})

/** From an error of the home node to what its HTTP answer makes of it. */
const asPeerError = (error: unknown) => {
  if (error instanceof PeerUnreachable) return error
  const status = Schema.is(Schema.Struct({ _tag: Schema.Literal("SegmentInvalid") }))(error) ? 422 : 404
  const detail = error instanceof Error ? error.message : String(error)
  return new PeerRefused({ nodeId: homeId, theirStatus: status, theirCode: "refused", reason: detail })
}

const peersOf = (to: Line, from: Side, other: Side) =>
  Layer.mock(Peers, {
    get: () => Effect.succeed(known(other)),
    call: (_nodeId, request, schema) =>
      answer(to, from.nodeId, request).pipe(
        Effect.mapError(asPeerError),
        // As JSON over the wire.
        Effect.flatMap((told) => Effect.orDie(Schema.encodeUnknownEffect(schema)(told))),
        Effect.flatMap((told) => Effect.orDie(Schema.decodeUnknownEffect(schema)(JSON.parse(JSON.stringify(told))))),
      ) as never,
    send: () => Effect.die("nobody streams here") as Effect.Effect<PeerAnswer, never>,
  })

/** A life of the home node; it answers on the line until the scope closes. */
export const liveHome = Effect.fnUntraced(
  function*(to: Line, home: Side, serving: Side, recordings: ReadonlyArray<FileIdentity>) {
    const context = yield* Layer.build(
      Home.layer.pipe(Layer.provideMerge(peersOf(line(), home, serving)), Layer.provideMerge(ground(home, recordings))),
    )
    to.home = Context.get(context, RecordBackHome)
    yield* Effect.addFinalizer(() =>
      Effect.sync(() => {
        to.home = null
      })
    )
    return { storage: Context.get(context, Storage), home: to.home }
  },
)

/** A life of the node that recorded. */
export const liveServing = Effect.fnUntraced(
  function*(to: Line, serving: Side, home: Side, recordings: ReadonlyArray<FileIdentity>) {
    const context = yield* Layer.build(
      Back.layer({ rate: Effect.succeed(0), keptMs: 0 }).pipe(
        Layer.provideMerge(peersOf(to, serving, home)),
        Layer.provideMerge(ground(serving, recordings)),
      ),
    )
    return {
      storage: Context.get(context, Storage),
      backs: Context.get(context, RecordBacks),
      jobs: Context.get(context, RecordBackJobs),
    }
  },
)

/** What is brought home. */
export const orderOf = (rerouteId: string) => ({
  rerouteId,
  homeNodeId: homeId,
  slot,
  firstEpoch: epochs.away,
  lastEpoch: epochs.away,
})
