/**
 * The program of `nightjar`: alone it wires layers together, and hands the commands that act on the node itself to the command
 * line.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect } from "effect"
import { Command } from "effect/cli"
import { makeCommands } from "./cli/commands.ts"
import { examine } from "./doctor.ts"
import { start } from "./start.ts"
import { version } from "./version.ts"

Command.run(makeCommands({ start, examine }), { version }).pipe(Effect.provide(NodeServices.layer), NodeRuntime.runMain)
