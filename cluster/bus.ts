/**
 * The bus between the nodes of one cluster, by nanomsg's protocols: publish and subscribe for hints, surveyor and respondent for signs of life.
 *
 * Invariants
 * 1. A hint is a reason to look sooner and nothing else: it is not kept, and whatever is lost, late, doubled or made up changes no
 *    outcome. Without the bus, and it is off unless a port is set, everything works, a little later.
 * 2. What is believed is for `bus-words.ts` to say. Members are dialled at the address that they signed; who is removed is left.
 * 3. It listens where the cluster's transport does. A port that is taken is told once, and the node goes on without the bus.
 * 4. Bounds: one hint to the others in {@link hintEvery}, one survey in {@link surveyEvery}, and those of `sp-socket.ts`.
 */
import type { NodeId } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Context, Effect, FiberSet, Latch, Layer, Random, Schedule, type Scope, Stream } from "effect"
import type { KeyObject } from "node:crypto"
import { BusJudge, type Dropped, type Said, speak } from "./bus-words.ts"
import { publicKeyOf } from "./dpop.ts"
import { NodeIdentity } from "./identity.ts"
import { type Member, Members } from "./members.ts"
import { makeSp, noneDropped, type SpDropped } from "./sp-socket.ts"
import { parted, surveyHead } from "./sp.ts"

const hintEvery = "50 millis"
const surveyEvery = "2 seconds"
const tellEvery = "10 minutes"
/** Surveys in a row that a node leaves unanswered until it counts as silent. */
const patience = 3

export interface BusDoor {
  /** Tells the others that the log of events has something new. */
  readonly tellEvents: Effect.Effect<void>
  /** Runs `look` whenever another node tells so, until the scope closes. */
  readonly onEvents: (look: Effect.Effect<void>) => Effect.Effect<void, never, Scope.Scope>
  /** Runs `look` whenever a node answers after it did not, or answers no more, until the scope closes. */
  readonly onPresence: (look: Effect.Effect<void>) => Effect.Effect<void, never, Scope.Scope>
  /** What was not believed, not taken or left out, by reason, since the start. */
  readonly dropped: Effect.Effect<Readonly<Partial<Record<Dropped | SpDropped, number>>>>
}

const silent: BusDoor = {
  tellEvents: Effect.void,
  onEvents: () => Effect.void,
  onPresence: () => Effect.void,
  dropped: Effect.succeed({}),
}

/** Off unless it is provided. */
export const Bus = Context.Reference<BusDoor>("nightjar/cluster/Bus", { defaultValue: () => silent })

export interface BusOptions {
  /** Where this node listens: publications on `port`, surveys on the next one; the same numbers on every node. */
  readonly host: string
  readonly port: number
}

/** Of `host:port`, or `[host]:port`. */
const hostOf = ({ address }: Member): string => address.slice(0, address.lastIndexOf(":")).replace(/^\[(.*)\]$/, "$1")

/** Those who are called when something happened. */
const makeListeners = () => {
  const all = new Set<() => void>()
  return {
    call: () => all.forEach((one) => one()),
    add: (look: Effect.Effect<void>) =>
      Effect.gen(function*() {
        const run = yield* FiberSet.makeRuntime<never, void, never>()
        const one = () => void run(look)
        yield* Effect.acquireRelease(Effect.sync(() => all.add(one)), () => Effect.sync(() => all.delete(one)))
      }),
  }
}

/** Who answers, from one survey to the next; `changed` when somebody begins to, or has left {@link patience} surveys unanswered. */
const makeRoll = (changed: () => void) => {
  const missed = new Map<NodeId, number>()
  return {
    size: () => missed.size,
    heard: (from: NodeId) => {
      const isNew = !missed.has(from)
      missed.set(from, 0)
      if (isNew) changed()
    },
    /** A survey goes out. */
    ask: () => {
      const before = missed.size
      for (const [nodeId, surveys] of missed) {
        if (surveys < patience) missed.set(nodeId, surveys + 1)
        else missed.delete(nodeId)
      }
      if (missed.size < before) changed()
    },
  }
}

/** What this node says and how it judges what it hears; members come and go. */
const makeVoice = Effect.gen(function*() {
  const { nodeId, signing } = yield* NodeIdentity
  const clock = yield* Clock.Clock
  const boot = yield* uuid7
  const judge = new BusJudge()
  let seq = 0
  let keys: ReadonlyMap<NodeId, KeyObject> = new Map()
  return {
    judge,
    know: (others: ReadonlyArray<Member>) => {
      keys = new Map(others.map((member) => [member.nodeId, publicKeyOf(member.signingKey)]))
    },
    word: (kind: Said["kind"], survey: string) => {
      seq += 1
      return speak({ from: nodeId, boot, seq, kind, survey }, signing.privateKey)
    },
    /** Null unless it counts and is of this kind. */
    heard: (kind: Said["kind"], message: Uint8Array, survey: string): Said | null => {
      const said = judge.judge(message, { keys, survey, nowMs: clock.currentTimeMillisUnsafe() })
      return said?.kind === kind ? said : null
    },
  }
})

/** What was dropped since it was last told. */
const tellDropped = (dropped: BusDoor["dropped"]) => {
  let told = 0
  return Effect.gen(function*() {
    const reasons = Object.entries(yield* dropped).filter(([, count]) => count > 0)
    const all = reasons.reduce((sum, [, count]) => sum + count, 0)
    if (all === told) return
    told = all
    yield* Effect.logWarning("Messages of the bus between nodes were dropped", Object.fromEntries(reasons))
  }).pipe(Effect.repeat(Schedule.spaced(tellEvery)))
}

const make = Effect.fnUntraced(function*({ host, port }: BusOptions) {
  const { nodeId } = yield* NodeIdentity
  const members = yield* Members
  const voice = yield* makeVoice
  const counts = noneDropped()
  const [events, presence] = [makeListeners(), makeListeners()]
  const roll = makeRoll(presence.call)
  let survey = ""
  let surveyId = yield* Random.nextIntBetween(0, 0x7fff_ffff)

  const publisher = yield* makeSp({ kind: "pub", counts, hear: () => {} })
  const subscriber = yield* makeSp({
    kind: "sub",
    counts,
    hear: (message) => {
      if (voice.heard("events", message, survey) !== null) events.call()
    },
  })
  const surveyor = yield* makeSp({
    kind: "surveyor",
    counts,
    hear: (message) => {
      const answer = parted(message)
      const isNow = answer !== null && answer.head.equals(surveyHead(surveyId))
      const said = isNow ? voice.heard("here", answer.body, survey) : null
      if (said !== null) roll.heard(said.from)
    },
  })
  const respondent = yield* makeSp({
    kind: "respondent",
    counts,
    hear: (message, answer) => {
      const asked = parted(message)
      const said = asked === null ? null : voice.heard("survey", asked.body, survey)
      if (said !== null) answer(Buffer.concat([asked!.head, voice.word("here", said.survey)]))
    },
  })
  yield* publisher.listen({ host, port })
  yield* surveyor.listen({ host, port: port + 1 })
  yield* Effect.logInfo(`The bus between nodes listens on ${host}, ports ${port} and ${port + 1}`)

  const follow = Effect.fnUntraced(function*(all: ReadonlyArray<Member>) {
    const others = all.filter((member) => member.admitted && member.transportPin !== null && member.nodeId !== nodeId)
    voice.know(others)
    // At this node's own address only this node answers.
    const hosts = [...new Set(others.map(hostOf))].filter((name) => name !== host)
    yield* subscriber.follow(hosts.map((name) => ({ host: name, port })))
    yield* respondent.follow(hosts.map((name) => ({ host: name, port: port + 1 })))
  })
  yield* members.changes.pipe(Stream.runForEach(follow), Effect.forkScoped)
  yield* Effect.gen(function*() {
    roll.ask()
    survey = yield* uuid7
    surveyId = (surveyId + 1) & 0x7fff_ffff
    surveyor.send(Buffer.concat([surveyHead(surveyId), voice.word("survey", survey)]))
  }).pipe(Effect.repeat(Schedule.spaced(surveyEvery)), Effect.forkScoped)
  const dropped = Effect.sync(() => {
    const judged = voice.judge.dropped
    return { ...judged, ...counts, oversized: judged.oversized + counts.oversized }
  })
  yield* presence.add(Effect.suspend(() => Effect.logInfo(`Other nodes that answer on the bus: ${roll.size()}`)))
  yield* Effect.forkScoped(tellDropped(dropped))
  const news = Latch.makeUnsafe(false)
  yield* Effect.gen(function*() {
    yield* news.await
    news.closeUnsafe()
    publisher.send(voice.word("events", ""))
    yield* Effect.sleep(hintEvery)
  }).pipe(Effect.forever, Effect.forkScoped)

  return {
    tellEvents: Effect.sync(() => news.openUnsafe()),
    onEvents: events.add,
    onPresence: presence.add,
    dropped,
  } satisfies BusDoor
})

/** A bus that cannot be used is told once, and left. */
export const layer = (options: BusOptions): Layer.Layer<never, never, Members | NodeIdentity> =>
  Layer.effect(
    Bus,
    make(options).pipe(Effect.catch(({ detail }) =>
      Effect.as(
        Effect.logWarning(`The bus between nodes is not used: ${detail}. Everything works without it, a little later`),
        silent,
      )
    )),
  )
