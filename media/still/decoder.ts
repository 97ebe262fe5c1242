/**
 * The decoder as this process sees it: a child that is started when it is needed, and killed when it misbehaves.
 *
 * Invariants
 * 1. One picture at a time. It has {@link DecoderOptions.longestMs} and {@link DecoderOptions.mostBytes} of memory (the latter where
 *    the system tells it); beyond either the child is killed.
 * 2. A child that ended, hung, or said what is no message is replaced: at once after a good one, then after 1 s, doubling to 30 s.
 * 3. Idle for {@link DecoderOptions.idleMs} it goes. That pictures cannot be decoded at all is remembered.
 * 4. It gets no environment, no standard output, and reads nothing but its pipe. Bytes of a camera reach it alone.
 */
import type { VideoParameters } from "#schema/media.ts"
import { Clock, Effect, Exit, Fiber, Option, Schema, Scope, Semaphore } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { readFile } from "node:fs/promises"
import { setPriority } from "node:os"
import { fileURLToPath } from "node:url"
import { StillFailed, StillUnsupported } from "../still.ts"
import { makeMessageReader, message, StillReply } from "./pipe.ts"

export interface DecoderOptions {
  /** Path of the child's program. */
  readonly program: string
  readonly longestMs: number
  /** Loading FFmpeg takes half a second, and a busy machine its time. */
  readonly startMs: number
  readonly mostBytes: number
  readonly idleMs: number
}

export const defaultDecoderOptions: DecoderOptions = {
  program: fileURLToPath(new URL("worker.ts", import.meta.url)),
  longestMs: 10_000,
  startMs: 30_000,
  mostBytes: 768 * 1024 * 1024,
  idleMs: 60_000,
}

const watchEveryMs = 250
const [firstBackMs, mostBackMs] = [1_000, 30_000]
/** A third of what everything else gets (0): on a busy machine a picture is late, at 19 it would never come. */
const niceness = 5
const pageBytes = 4_096

const startCode = Uint8Array.of(0, 0, 0, 1)

/** Annex B: each NAL unit behind a start code instead of its length, parameter sets in front. */
export const annexB = ({ pps, sps, vps }: VideoParameters, unit: Uint8Array): Uint8Array => {
  const pieces: Array<Uint8Array> = [vps, sps, pps].filter((set) => set.length > 0).flatMap((set) => [startCode, set])
  const view = new DataView(unit.buffer, unit.byteOffset, unit.length)
  for (let at = 0; at + 4 <= unit.length;) {
    const end = at + 4 + view.getUint32(at)
    if (end > unit.length) break
    pieces.push(startCode, unit.subarray(at + 4, end))
    at = end
  }
  return Buffer.concat(pieces)
}

const decodeReply = Schema.decodeUnknownOption(Schema.fromJsonString(StillReply))

interface Reply extends StillReply {
  readonly payload: Buffer
}

/** A running child; `next` waits for its next message and fails when it ends or talks nonsense. */
class Child {
  private readonly process: ChildProcess
  private waiting: ((reply: Reply | null) => void) | null = null
  private readonly early: Array<Reply> = []
  private over = false

  constructor(program: string) {
    this.process = spawn(process.execPath, ["--max-old-space-size=128", program], {
      stdio: ["pipe", "ignore", "ignore", "pipe"],
      env: {},
    })
    const { pid } = this.process
    if (pid !== undefined) {
      try {
        setPriority(pid, niceness)
      } catch {
        // It may be gone already, which `exit` tells.
      }
    }
    const read = makeMessageReader((header, payload) => {
      const reply = decodeReply(header)
      if (Option.isNone(reply)) this.end()
      else this.tell({ ...reply.value, payload })
    })
    const pipe = this.process.stdio[3]
    pipe?.on("data", (chunk: Buffer) => {
      try {
        read(chunk)
      } catch {
        this.end()
      }
    })
    this.process.on("error", () => this.end())
    this.process.on("exit", () => this.end())
    // It may end while it is written to.
    this.process.stdin?.on("error", () => {})
  }

  get alive(): boolean {
    return !this.over
  }

  send(pieces: ReadonlyArray<Uint8Array>): void {
    for (const piece of pieces) this.process.stdin?.write(piece)
  }

  get next(): Effect.Effect<Reply, StillFailed> {
    const take = Effect.callback<Reply | null>((resume) => {
      const known = this.early.shift()
      if (known !== undefined || this.over) return resume(Effect.succeed(known ?? null))
      this.waiting = (reply) => resume(Effect.succeed(reply))
      return Effect.sync(() => {
        this.waiting = null
      })
    })
    return Effect.flatMap(
      take,
      (reply) => reply === null ? Effect.fail(new StillFailed({ reason: "the decoder ended" })) : Effect.succeed(reply),
    )
  }

  /** Resident memory, bytes; null where the system does not tell. */
  get memory(): Effect.Effect<number | null> {
    return Effect.promise(async () => {
      const text = await readFile(`/proc/${this.process.pid}/statm`, "latin1").catch(() => "")
      const pages = Number(text.split(" ")[1])
      return Number.isInteger(pages) ? pages * pageBytes : null
    })
  }

  end(): void {
    this.over = true
    this.process.kill("SIGKILL")
    this.waiting?.(null)
    this.waiting = null
  }

  private tell(reply: Reply): void {
    const { waiting } = this
    this.waiting = null
    if (waiting !== null) waiting(reply)
    // One question, one answer: more is nonsense.
    else if (this.early.push(reply) > 1) this.end()
  }
}

/** Fails once the child holds more than it may. */
const watchMemory = (child: Child, mostBytes: number) =>
  Effect.gen(function*() {
    while (true) {
      yield* Effect.sleep(watchEveryMs)
      const bytes = yield* child.memory
      if (bytes !== null && bytes > mostBytes) {
        return yield* new StillFailed({ reason: "the decoder took too much memory" })
      }
    }
  })

export interface Decoder {
  /** `picture`: as {@link annexB} makes it. */
  readonly jpeg: (
    codec: VideoParameters["codec"],
    picture: Uint8Array,
    width: number,
  ) => Effect.Effect<Uint8Array, StillUnsupported | StillFailed>
}

export const makeDecoder = Effect.fnUntraced(function*(options: DecoderOptions) {
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  const one = yield* Semaphore.make(1)
  let child: Child | null = null
  let unsupported: string | null = null
  let failures = 0
  let notBeforeMs = 0
  let idle: Fiber.Fiber<void> | null = null

  const late = (ms: number) => ({
    duration: ms,
    orElse: () => Effect.fail(new StillFailed({ reason: `the decoder took longer than ${ms / 1000} s` })),
  })

  const begin = Effect.gen(function*() {
    if (clock.currentTimeMillisUnsafe() < notBeforeMs) {
      return yield* new StillFailed({ reason: "the decoder is being started again" })
    }
    const started = new Child(options.program)
    child = started
    const { kind, reason } = yield* Effect.timeoutOrElse(started.next, late(options.startMs))
    if (kind === "ready") return started
    if (kind !== "unsupported") return yield* new StillFailed({ reason: "the decoder began with nonsense" })
    unsupported = reason ?? ""
    return yield* new StillUnsupported({ reason: unsupported })
  })

  const stop = Effect.sync(() => {
    child?.end()
    child = null
  })

  /** Whatever went wrong: the child goes, and the next one waits. */
  const broken = Effect.sync(() => {
    child?.end()
    child = null
    notBeforeMs = failures === 0 ?
      0 :
      clock.currentTimeMillisUnsafe() + Math.min(mostBackMs, firstBackMs * 2 ** (failures - 1))
    failures = Math.min(failures + 1, 16)
  })

  const ask = Effect.fnUntraced(function*(codec: VideoParameters["codec"], picture: Uint8Array, width: number) {
    const running = child?.alive === true ? child : yield* begin
    running.send(message({ codec, width }, picture))
    const { kind, payload, reason } = yield* running.next.pipe(
      Effect.raceFirst(watchMemory(running, options.mostBytes)),
      Effect.timeoutOrElse(late(options.longestMs)),
    )
    if (kind === "ready" || kind === "unsupported") {
      return yield* new StillFailed({ reason: "the decoder talks nonsense" })
    }
    failures = 0
    notBeforeMs = 0
    // JPEG: begins with FF D8 (ITU-T T.81, B.1.1.3).
    if (kind === "jpeg" && payload[0] === 0xff && payload[1] === 0xd8) return { jpeg: payload }
    return { refused: reason ?? "no picture" }
  })

  const rest = Effect.gen(function*() {
    if (idle !== null) yield* Fiber.interrupt(idle)
    const sleep = Effect.andThen(Effect.sleep(options.idleMs), one.withPermits(1)(stop))
    idle = yield* Effect.forkIn(sleep, scope)
  })

  yield* Scope.addFinalizer(scope, stop)

  return {
    jpeg: (codec, picture, width) =>
      one.withPermits(1)(Effect.gen(function*() {
        if (unsupported !== null) return yield* new StillUnsupported({ reason: unsupported })
        const answer = yield* Effect.onExit(ask(codec, picture, width), (exit) =>
          Exit.isFailure(exit) ? broken : Effect.void)
        if ("refused" in answer) {
          return yield* new StillFailed({ reason: answer.refused })
        }
        return answer.jpeg
      })).pipe(Effect.ensuring(rest)),
  } satisfies Decoder
})
