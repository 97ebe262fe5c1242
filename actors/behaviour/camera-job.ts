/**
 * The service `CameraJobs`: takes work on many cameras, and does what this node took, also after a restart.
 *
 * Invariants
 * 1. One job at a time, {@link atOnce} cameras of it at once.
 * 2. A camera's id is decided before it is added: after a kill in the middle, the item is looked up instead of done twice.
 * 3. While something is away items wait and are tried again; after {@link mostTries} tries of this process an item counts as failed.
 */
import { CameraJobs } from "#actors/protocol/camera-job.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { CameraJobStore, type JobRow, type NewJobItem } from "#actors/store/camera-job.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { Ownership } from "#cluster/ownership.ts"
import { cameraJobSecret, cameraSecret, type NewCamera, streamSecret } from "#schema/camera-change.ts"
import {
  type BulkAdd,
  type CameraImport,
  CameraJobId,
  CameraJobNotFound,
  type ImportPlan,
  JobOutcome,
} from "#schema/camera-job.ts"
import { CameraCreate } from "#schema/camera.ts"
import { CameraId, type PageRequest } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Cause, Clock, Effect, Latch, Layer, Redacted, Schema } from "effect"
import { ImportInput, makeImportPlanner } from "./camera-import.ts"

const atOnce = 4
/** Items looked at together. */
const batch = 64
const mostTries = 5
const againMs = 2_000
/** Where ONVIF is spoken if no port is told. */
const defaultPort = 80

const cursor = cursorOf("cameraJob", Schema.Struct({ number: Schema.Int }))
const BulkInput = CameraCreate.mapFields((fields) => ({ ...fields, password: Schema.NullOr(Schema.String) }))
const bulkJson = Schema.fromJsonString(BulkInput)
const importJson = Schema.fromJsonString(ImportInput)
const outcomes = JobOutcome.literals

interface Settled {
  readonly outcome: JobOutcome
  readonly detail: string
  readonly cameraId: CameraId
}

const hasMessage = (error: unknown): error is { readonly message: string } =>
  typeof error === "object" && error !== null && "message" in error

/** What became of an item, from the error that adding it ended with. */
const outcomeOf: Readonly<Record<string, JobOutcome>> = {
  CameraAuthFailed: "refused",
  LicenseRestricted: "restricted",
  CameraUnreachable: "unreachable",
  OnvifOperationUnsupported: "unsupported",
  DriverUnsupported: "unsupported",
  InvalidInput: "invalid",
}

const make = Effect.gen(function*() {
  const [jobs, store, cameras] = yield* Effect.all([CameraJobStore, CameraStore, Cameras])
  const [ownership, vault] = yield* Effect.all([Ownership, Vault])
  const planImport = yield* makeImportPlanner
  const wanted = Latch.makeUnsafe(true)
  const tries = new Map<string, number>()

  const get = Effect.fnUntraced(function*(id: CameraJobId) {
    const found = yield* jobs.get(id)
    if (found === null) return yield* new CameraJobNotFound({ id })
    const counts = Object.fromEntries(outcomes.map((outcome) => [outcome, 0])) as Record<JobOutcome, number>
    for (const { count, outcome } of found.counts) counts[outcome] = count
    const total = Object.values(counts).reduce((sum, count) => sum + count, 0)
    return {
      id,
      kind: found.job.kind,
      state: found.job.finishedAt === null ? "running" as const : "done" as const,
      progress: total === 0 ? 1 : (total - counts.waiting) / total,
      error: null,
      counts,
      createdAt: found.job.createdAt.getTime(),
      finishedAt: found.job.finishedAt?.getTime() ?? null,
    }
  })
  const take = Effect.fnUntraced(function*(kind: JobRow["kind"], items: ReadonlyArray<NewJobItem>) {
    const id = CameraJobId.make(yield* uuid7)
    yield* jobs.add({ id, kind, nodeId: ownership.nodeId }, items, yield* Clock.currentTimeMillis)
    wanted.openUnsafe()
    return yield* get(id).pipe(Effect.catchTag("CameraJobNotFound", Effect.die))
  })
  const sealed = Effect.fnUntraced(function*(item: Omit<NewJobItem, "id" | "sealedInput">, input: string | null) {
    const id = yield* uuid7
    const sealedInput = input === null ? null : yield* vault.seal(cameraJobSecret(id), Redacted.make(input))
    return { ...item, id, sealedInput } satisfies NewJobItem
  })

  const addBulk = Effect.fn("CameraJobs.addBulk")(function*({ cameras: wantedCameras, tags, ...shared }: BulkAdd) {
    const items = yield* Effect.forEach(wantedCameras, (one, number) =>
      Effect.gen(function*() {
        const own = one.username !== undefined || one.password !== undefined ? one : shared
        const { host, name = host, port = defaultPort } = one
        const { password = null, username = null } = own
        const input = yield* Effect.orDie(
          Schema.encodeEffect(bulkJson)({
            name,
            driver: "onvif",
            host,
            port,
            username,
            password: password === null ? null : Redacted.value(password),
            ...(tags === undefined ? {} : { tags }),
          }),
        )
        const cameraId = CameraId.make(yield* uuid7)
        return yield* sealed({ number, name, host, outcome: "waiting", detail: "", cameraId }, input)
      }))
    return yield* take("bulk", items)
  })

  const addImport = Effect.fn("CameraJobs.addImport")(
    function*(document: CameraImport, passphrase: Redacted.Redacted | null) {
      const planned = yield* planImport(document, passphrase)
      const items = yield* Effect.forEach(planned, ({ cameraId: own, detail, input, name, number, outcome }) =>
        Effect.gen(function*() {
          const text = input === null ? null : yield* Effect.orDie(Schema.encodeEffect(importJson)(input))
          const cameraId = own ?? CameraId.make(yield* uuid7)
          const told = outcome === "add" ? "waiting" as const : outcome
          return yield* sealed(
            { number, name, host: input?.camera.host ?? null, outcome: told, detail, cameraId },
            text,
          )
        }))
      return yield* take("import", items)
    },
  )

  /** A camera of a backup as it is written here, passwords sealed by the vault. */
  const imported = Effect.fnUntraced(function*({ camera, passwords }: ImportInput): Effect.fn.Return<NewCamera> {
    const seal = (context: string, id: string) => {
      const password = passwords[id]
      return password === undefined ? Effect.succeed(null) : vault.seal(context, Redacted.make(password))
    }
    const { firmware, manufacturer, model, serial } = camera
    return {
      id: camera.id,
      homeNodeId: ownership.nodeId,
      name: camera.name,
      description: camera.description,
      driver: camera.driver,
      host: camera.host,
      port: camera.port,
      enabled: camera.enabled,
      username: camera.username,
      sealedPassword: yield* seal(cameraSecret(camera.id), camera.id),
      tags: camera.tags,
      information: { firmware, manufacturer, model, serial },
      channels: yield* Effect.forEach(
        camera.channels,
        ({ active, id, name, streams }) =>
          Effect.map(
            Effect.forEach(streams, (stream) =>
              Effect.map(seal(streamSecret(stream.id), stream.id), (sealedPassword) => ({
                id: stream.id,
                role: stream.role,
                sourceUrl: stream.sourceUrl,
                transport: stream.transport,
                enabled: stream.enabled,
                ...(stream.onDemand === undefined ? {} : { onDemand: stream.onDemand }),
                username: stream.username,
                sealedPassword,
              }))),
            (made) => ({ id, name, active, streams: made }),
          ),
      ),
    }
  })

  /** Adds the camera of an item; fails as adding it does. */
  const addOne = Effect.fnUntraced(function*(kind: JobRow["kind"], { cameraId, detail, id, sealedInput }: NewJobItem) {
    const added = { outcome: "added" as const, detail, cameraId }
    if ((yield* store.get(cameraId)) !== null) return added
    if (sealedInput === null) return yield* Effect.die(new Error("an item that waits has lost what it is to do"))
    const text = Redacted.value(yield* Effect.orDie(vault.open(cameraJobSecret(id), sealedInput)))
    if (kind === "import") {
      const input = yield* Effect.orDie(Schema.decodeUnknownEffect(importJson)(text))
      yield* cameras.place(yield* imported(input))
      return added
    }
    const { password, ...input } = yield* Effect.orDie(Schema.decodeUnknownEffect(bulkJson)(text))
    const { host = "", port = defaultPort } = input
    const same = (yield* store.atHosts([host])).find((one) => one.port === port)
    if (same !== undefined) return { outcome: "known" as const, detail: "", cameraId: same.id }
    yield* cameras.create({ ...input, ...(password === null ? {} : { password: Redacted.make(password) }) }, cameraId)
    return added
  })

  /** Null: something is away, it waits on. */
  const tried = (kind: JobRow["kind"], item: NewJobItem): Effect.Effect<Settled | null> =>
    Effect.catchCause(addOne(kind, item), (cause) => {
      const failure = cause.reasons.find(Cause.isFailReason)?.error
      const known = failure === undefined ? undefined : outcomeOf[failure._tag]
      const { cameraId, id } = item
      if (known !== undefined && hasMessage(failure)) {
        return Effect.succeed({ outcome: known, detail: failure.message, cameraId })
      }
      const count = (tries.get(id) ?? 0) + 1
      tries.set(id, count)
      if (failure !== undefined && count < mostTries) return Effect.succeed(null)
      return Effect.as(Effect.logError("A camera of a job could not be added", { item: id, cause }), {
        outcome: "failed" as const,
        detail: failure === undefined ? "an internal error; the log tells more" : failure.message,
        cameraId,
      })
    })

  /** Whether all of the job is done. */
  const work = Effect.fnUntraced(function*({ id, kind }: Pick<JobRow, "id" | "kind">) {
    const items = yield* jobs.waiting(id, batch)
    if (items.length === 0) {
      yield* jobs.finish(id, yield* Clock.currentTimeMillis)
      return true
    }
    const settled = yield* Effect.forEach(items, (item) =>
      Effect.gen(function*() {
        const became = yield* tried(kind, item)
        if (became === null) return false
        yield* jobs.settle(item.id, became.outcome, became.detail, became.cameraId)
        tries.delete(item.id)
        return true
      }), { concurrency: atOnce })
    if (settled.includes(false)) yield* Effect.sleep(againMs)
    return false
  })
  const round = Effect.gen(function*() {
    wanted.closeUnsafe()
    for (const job of yield* jobs.running(ownership.nodeId)) while (!(yield* work(job)));
  }).pipe(
    Effect.catchCause((cause) =>
      Effect.logWarning("Work on cameras must wait", cause).pipe(
        Effect.andThen(Effect.sleep(againMs)),
        Effect.andThen(Effect.sync(() => wanted.openUnsafe())),
      )
    ),
  )
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(wanted.await, round)))

  return CameraJobs.of({
    addBulk,
    addImport,
    planImport: Effect.fn("CameraJobs.planImport")(
      function*(document: CameraImport, passphrase: Redacted.Redacted | null) {
        const items = yield* planImport(document, passphrase)
        const counts: Record<ImportPlan["items"][number]["outcome"], number> = {
          add: 0,
          known: 0,
          clash: 0,
          unsupported: 0,
          invalid: 0,
        }
        for (const { outcome } of items) counts[outcome]++
        return { counts, items: items.map(({ detail, name, number, outcome }) => ({ number, name, outcome, detail })) }
      },
    ),
    isOf: jobs.isOf,
    get,
    items: Effect.fnUntraced(function*(id: CameraJobId, page: PageRequest) {
      yield* get(id)
      const after = yield* cursor.decode(page.cursor)
      const rows = yield* jobs.items(id, after?.number ?? -1, page.limit + 1)
      const position = ({ number }: { readonly number: number }) => ({ number })
      return pageFrom({ rows, limit: page.limit, cursor, position, item: (row) => row })
    }),
  })
})

export const layer = Layer.effect(CameraJobs, make)
