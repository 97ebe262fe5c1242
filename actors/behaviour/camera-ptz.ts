/**
 * The part of the entity `CameraDevice` that moves the camera and its focus.
 *
 * Invariants
 * 1. What moves the camera or its focus, or changes what it would move to, is carried out for its holder alone ({@link PtzHold}), one command
 *    after the other; whoever lost the camera while he waited is refused.
 * 2. A continuous move that is not repeated in time is stopped by this node, whether the camera minds its `Timeout` or not; so is
 *    one whose session ended, and one that is under way when the entity leaves the node.
 * 3. A command that failed gives nobody the camera.
 * 4. The camera and its focus move side by side; each is watched by itself. One source's focus moves at a time.
 */
import type { AccessTokens } from "#actors/protocol/auth.ts"
import type { focusMessages, ptzMessages } from "#actors/protocol/camera-ptz.ts"
import type { Device } from "#media/device.ts"
import { type FocusMove, focusMoveMs } from "#schema/camera-config.ts"
import { CameraUnreachable, type DeviceError } from "#schema/camera-device.ts"
import { PtzHeld, type PtzReset, type PtzUser } from "#schema/camera-ptz.ts"
import type { CameraNotFound } from "#schema/camera.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Clock, Duration, Effect, FiberHandle, Schedule, Semaphore } from "effect"
import type { Entity } from "effect/cluster"
import type { DeviceOperation } from "./camera-connect.ts"
import { PtzHold } from "./camera-hold.ts"

/** Does something with the device, connected if need be. `operation` is what a camera that cannot be asked is told to lack. */
export type OnDevice = <A, E extends { readonly _tag: string }>(
  operation: DeviceOperation,
  work: (device: Device) => Effect.Effect<A, E>,
) => Effect.Effect<A, E | DeviceError | CameraNotFound | DependencyUnavailable>

interface MovingOptions {
  /** How long a camera is kept for whoever moved it last. */
  readonly holdMs: number
  /** Of one command, its wait for its turn included. */
  readonly limit: Duration.Input
}

/** A stop that did not arrive is sent again, so often: it does no harm twice. */
const stops = 10
const stopAgain = Schedule.spaced("1 second")
/** For a last stop while the node ends. */
const lastStop = Duration.seconds(2)

/** A continuous move that this node watches. */
interface Move {
  /** Profile or video source that moves. */
  readonly of: string | null
  readonly sessionId: string
  readonly timeoutMs: number
}

/** How a camera, or its focus, is told to stand still. */
type Halt = (device: Device, of: string | null) => Effect.Effect<void, DeviceError>
const haltPtz: Halt = ({ ptz }, profile) => ptz.stop(profile)
const haltFocus: Halt = ({ config }, source) => source === null ? Effect.void : config.stopFocus(source)

const resetting = (profile: string | null, forget: PtzReset) =>
  Effect.fnUntraced(function*({ ptz, tours }: Device) {
    yield* ptz.stop(profile)
    const configuration = yield* tours.widen(profile)
    const keptTours = forget.tours ? yield* tours.tours(profile) : []
    yield* Effect.forEach(keptTours, ({ token }) => tours.removeTour(profile, token), { discard: true })
    const keptPresets = forget.presets ? yield* ptz.presets(profile) : []
    yield* Effect.forEach(keptPresets, ({ token }) => ptz.removePreset(profile, token), { discard: true })
    return { configuration, removedPresets: keptPresets.length, removedTours: keptTours.length }
  })

type Sessions = Pick<AccessTokens["Service"], "hasEnded" | "untilEnded">

/** Sends the stop that an operator who has gone does not send. */
const makeWatch = Effect.fnUntraced(function*(on: OnDevice, turn: Semaphore.Semaphore, sessions: Sessions, halt: Halt) {
  let move: Move | null = null
  const stop = (mine: Move) =>
    Effect.suspend(() =>
      move === mine ?
        Effect.map(on("standing still", (device) => halt(device, mine.of)), () => {
          if (move === mine) move = null
        }) :
        Effect.void
    )
  yield* Effect.addFinalizer(() =>
    move === null ? Effect.void : stop(move).pipe(Effect.timeout(lastStop), Effect.ignore)
  )
  const watcher = yield* FiberHandle.make()
  const watched = Effect.fnUntraced(function*(mine: Move) {
    yield* Effect.raceFirst(Effect.sleep(mine.timeoutMs), sessions.untilEnded(mine.sessionId))
    yield* Semaphore.withPermit(turn)(stop(mine)).pipe(
      Effect.retry({
        schedule: stopAgain,
        times: stops - 1,
        while: ({ _tag }) => _tag === "CameraUnreachable" || _tag === "DependencyUnavailable",
      }),
      Effect.catch((error) => Effect.logWarning("A camera could not be told to stop", { reason: error._tag })),
    )
  })
  return {
    current: () => move,
    /** From now on this is how the camera moves; null: it is still, or stops by itself. */
    set: (next: Move | null) =>
      Effect.suspend(() => {
        move = next
        return next === null ? FiberHandle.clear(watcher) : Effect.asVoid(FiberHandle.run(watcher, watched(next)))
      }),
  }
})

type Watch = Effect.Success<ReturnType<typeof makeWatch>>

/** What a command does to the camera besides itself. */
interface Effects {
  /** How it moves then; left out: as before. */
  readonly move?: Move | null
  /** What moves, where it is not the camera itself. */
  readonly watch?: Watch
}

const makeCommands = Effect.fnUntraced(function*(on: OnDevice, sessions: Sessions, options: MovingOptions) {
  const hold = new PtzHold(options.holdMs)
  const turn = yield* Semaphore.make(1)
  const movement = yield* makeWatch(on, turn, sessions, haltPtz)
  const focus = yield* makeWatch(on, turn, sessions, haltFocus)

  const holder = Effect.gen(function*() {
    const held = hold.holder(yield* Clock.currentTimeMillis)
    if (held === null || !(yield* sessions.hasEnded(held.sessionId))) return held
    hold.release(held.sessionId)
    return null
  })
  const claim = Effect.fnUntraced(function*(by: PtzUser, busyMs: number | null) {
    yield* holder
    const keeper = hold.claim(by, yield* Clock.currentTimeMillis, busyMs)
    if (keeper === null) return
    const { priority, until, username } = keeper
    return yield* new PtzHeld({ username, priority, until })
  })
  const command = <A, E extends { readonly _tag: string }>(
    by: PtzUser,
    operation: DeviceOperation,
    work: (device: Device, before: Move | null) => Effect.Effect<A, E>,
    { move, watch = movement }: Effects = {},
  ) =>
    Effect.gen(function*() {
      const busyMs = move === undefined ? null : move?.timeoutMs ?? 0
      const before = yield* holder
      yield* claim(by, busyMs)
      const carriedOut = Effect.gen(function*() {
        // Somebody with a higher priority may have come while this waited for its turn.
        yield* claim(by, busyMs)
        const before = watch.current()
        // A move is watched before it is told: its answer may be lost. What ends one counts once it was carried out.
        if (move !== undefined && move !== null) yield* watch.set(move)
        const done = yield* on(operation, (device) => work(device, before)).pipe(
          Effect.tapError((error) => error._tag === "CameraUnreachable" ? Effect.void : watch.set(before)),
        )
        if (move === null) yield* watch.set(null)
        return done
      })
      return yield* Semaphore.withPermit(turn)(carriedOut).pipe(
        Effect.timeoutOrElse({
          duration: options.limit,
          orElse: () => Effect.fail(new CameraUnreachable({ reason: "timeout", detail: "it did not answer in time" })),
        }),
        Effect.tapError(() => Effect.sync(() => hold.undo(by.userId, before))),
      )
    })
  return { command, focus, holder }
})

type Commands = Effect.Success<ReturnType<typeof makeCommands>>

const focusHandlers = ({ command, focus }: Commands) => ({
  MoveFocus: ({ payload: { by, move, source } }: {
    readonly payload: { readonly by: PtzUser; readonly source: string; readonly move: FocusMove }
  }) =>
    command(by, "focus", (device, before) =>
      Effect.gen(function*() {
        if (before !== null && before.of !== source) yield* haltFocus(device, before.of)
        yield* device.config.moveFocus(source, move)
      }), {
      watch: focus,
      move: move.mode === "continuous" ?
        { of: source, sessionId: by.sessionId, timeoutMs: move.timeoutMs ?? focusMoveMs } :
        null,
    }),
  StopFocus: ({ payload: { by, source } }: { readonly payload: { readonly by: PtzUser; readonly source: string } }) =>
    command(by, "focus", ({ config }) => config.stopFocus(source), { watch: focus, move: null }),
})

/** Handlers of one camera's messages about PTZ. */
export const makePtzHandlers = Effect.fnUntraced(function*(on: OnDevice, sessions: Sessions, options: MovingOptions) {
  const commands = yield* makeCommands(on, sessions, options)
  const { command, holder } = commands
  const still = { move: null }
  return {
    ...focusHandlers(commands),
    MoveContinuous: ({ payload: { by, profile, speed, timeoutMs } }) =>
      command(by, "moving", ({ ptz }) => ptz.moveContinuous(profile, speed, timeoutMs), {
        move: { of: profile, sessionId: by.sessionId, timeoutMs },
      }),
    MoveAbsolute: ({ payload: { by, position, profile, speed } }) =>
      command(by, "moving", ({ ptz }) => ptz.moveAbsolute(profile, position, speed), still),
    MoveRelative: ({ payload: { by, profile, speed, translation } }) =>
      command(by, "moving", ({ ptz }) => ptz.moveRelative(profile, translation, speed), still),
    StopMoving: ({ payload: { by, profile } }) => command(by, "moving", ({ ptz }) => ptz.stop(profile), still),
    Status: ({ payload: { profile } }) =>
      Effect.gen(function*() {
        const status = yield* on("moving", ({ ptz }) => ptz.status(profile))
        const held = yield* holder
        return {
          ...status,
          holder: held === null ? null : { username: held.username, priority: held.priority, until: held.until },
        }
      }),
    Presets: ({ payload: { profile } }) => on("presets", ({ ptz }) => ptz.presets(profile)),
    SetPreset: ({ payload: { by, name, profile, token } }) =>
      command(by, "presets", ({ ptz }) => ptz.setPreset(profile, name, token)),
    RemovePreset: ({ payload: { by, profile, token } }) =>
      command(by, "presets", ({ ptz }) => ptz.removePreset(profile, token)),
    GotoPreset: ({ payload: { by, profile, token } }) =>
      command(by, "presets", ({ ptz }) => ptz.gotoPreset(profile, token), still),
    SetHome: ({ payload: { by, profile } }) => command(by, "a home position", ({ ptz }) => ptz.setHome(profile)),
    GotoHome: ({ payload: { by, profile } }) =>
      command(by, "a home position", ({ ptz }) => ptz.gotoHome(profile), still),
    PtzNodes: () => on("moving", ({ tours }) => tours.nodes),
    PtzConfigurations: () => on("moving", ({ tours }) => tours.configurations),
    ResetPtz: ({ payload: { by, forget, profile } }) => command(by, "moving", resetting(profile, forget), still),
    Tours: ({ payload: { profile } }) => on("tours", ({ tours }) => tours.tours(profile)),
    CreateTour: ({ payload: { by, profile, tour } }) =>
      command(by, "tours", ({ tours }) => tours.createTour(profile, tour)),
    RemoveTour: ({ payload: { by, profile, token } }) =>
      command(by, "tours", ({ tours }) => tours.removeTour(profile, token)),
    OperateTour: ({ payload: { by, operation, profile, token } }) =>
      command(by, "tours", ({ tours }) => tours.operateTour(profile, token, operation), still),
  } satisfies Entity.HandlersFrom<(typeof ptzMessages | typeof focusMessages)[number]>
})
