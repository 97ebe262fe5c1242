/**
 * Capture and storage as a process that can be killed: `node capture-process.ts ROOT URL`. Assigns the stream on the first start,
 * takes it up from the disk on the next ones. Prints the state of the recording whenever it changes; ends in order on SIGTERM.
 */
import { RecorderSupervisor } from "#media/recorder.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Stream } from "effect"
import { cameraAt, nodeOf } from "./capture-node.ts"

const [, , root = "", url = ""] = process.argv

NodeRuntime.runMain(
  Effect.gen(function*() {
    const supervisor = yield* RecorderSupervisor
    if ((yield* supervisor.assignments).length === 0) yield* supervisor.assign(cameraAt(url))
    yield* Stream.runForEach(supervisor.changes, (status) => Console.log(`${status.health} ${status.recordingState}`))
  }).pipe(Effect.provide(nodeOf(root, 5_000)), Effect.scoped),
)
