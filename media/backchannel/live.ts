/** The layer of the backchannels: each call opens a connection of its own. */
import { Layer } from "effect"
import { Backchannels } from "../backchannel.ts"
import { openBackchannel } from "./client.ts"

export const layer = Layer.succeed(Backchannels, Backchannels.of({ open: openBackchannel }))
