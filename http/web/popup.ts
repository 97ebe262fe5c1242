/** A popup of a rule, as the live channel brings it. */
import { type EventEnvelope, eventTypes, type Severity } from "#schema/event.ts"
import { Option, Schema } from "effect"
import { type Sound, sounds } from "./sounds.ts"

export interface Shown {
  readonly id: string
  readonly title: string
  readonly text: string
  readonly rule: string
  readonly severity: Severity
  /** `#rrggbb`; null for the colour of the severity. */
  readonly colour: string | null
  readonly sound: Sound | null
  readonly test: boolean
  readonly time: number
}

const type = "popup.raised"
const decode = Schema.decodeUnknownOption(eventTypes[type].data)

/** Null for an event that is no popup. A sound of another release is silence. */
export const shownOf = (event: EventEnvelope): Shown | null => {
  if (event.type !== type) return null
  const popup = Option.getOrNull(decode(event.data))
  if (popup === null) return null
  const { colour, rule, sound, test, text, title } = popup
  const { id, severity, time } = event
  return { id, title, text, rule, severity, colour, sound: sounds.find((one) => one === sound) ?? null, test, time }
}
