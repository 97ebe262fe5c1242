/**
 * Moving the focus of an ONVIF device (Imaging Service, sections 5.1.6 to 5.1.9).
 *
 * Invariants
 * 1. A move is sent only where the device's move options have it and within their ranges; a kind of move they lack is unsupported.
 */
import type { FocusMove } from "#schema/camera-config.ts"
import { OnvifOperationUnsupported } from "#schema/camera-device.ts"
import { Effect, Schema } from "effect"
import type { OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import { filled, opt, present, range } from "./onvif-shape.ts"
import { firstFault, withinRange } from "./onvif-words.ts"

const limit = opt(filled(range))
const optionsShape = Schema.Struct({
  moveOptions: filled(Schema.Struct({
    absolute: opt(filled(Schema.Struct({ position: limit, speed: limit }))),
    relative: opt(filled(Schema.Struct({ distance: limit, speed: limit }))),
    continuous: opt(filled(Schema.Struct({ speed: limit }))),
  })),
})

const element = (name: string, value: number | undefined) =>
  value === undefined ? "" : `<tt:${name}>${value}</tt:${name}>`
const focusXml = (move: FocusMove): string => {
  const speed = element("Speed", move.speed)
  switch (move.mode) {
    case "absolute":
      return `<tt:Absolute>${element("Position", move.position)}${speed}</tt:Absolute>`
    case "relative":
      return `<tt:Relative>${element("Distance", move.distance)}${speed}</tt:Relative>`
    case "continuous":
      return `<tt:Continuous>${speed}</tt:Continuous>`
  }
}

export const onvifFocus = (client: OnvifClient) => {
  const sourceOf = (token: string) => `<VideoSourceToken>${escaped(token)}</VideoSourceToken>`
  const moveFocus = Effect.fnUntraced(function*(source: string, move: FocusMove) {
    const body = sourceOf(source)
    const told = yield* client.call({ service: "imaging", operation: "GetMoveOptions", body, reply: optionsShape })
    const allowed = present(told.moveOptions)?.[move.mode]
    if (allowed === undefined) {
      return yield* new OnvifOperationUnsupported({ operation: "Move", detail: `its focus has no ${move.mode} moves` })
    }
    const limits: Readonly<Record<string, typeof limit.Type | undefined>> = allowed === "" ? {} : allowed
    yield* firstFault(
      ...["position", "distance", "speed"].map((member) =>
        withinRange(
          member,
          (move as Readonly<Record<string, unknown>>)[member] as number | undefined,
          present(limits[member]),
        )
      ),
    )
    yield* client.call({
      service: "imaging",
      operation: "Move",
      body: `${body}<Focus>${focusXml(move)}</Focus>`,
      reply: Schema.Unknown,
    })
  })
  return {
    moveFocus,
    stopFocus: (source: string) =>
      Effect.asVoid(
        client.call({ service: "imaging", operation: "Stop", body: sourceOf(source), reply: Schema.Unknown }),
      ),
  }
}
