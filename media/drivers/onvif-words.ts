/**
 * What the configuration of ONVIF devices shares: which media service is asked, checks against what a device allows, ONVIF's words and
 * ours.
 *
 * Invariants
 * 1. Media 1 is asked where Media 2 says that it cannot; never because it failed or refused.
 */
import { type DeviceError, OnvifOperationUnsupported, type Range } from "#schema/camera-device.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect } from "effect"
import { escaped } from "./onvif-message.ts"

export type MediaService = "media" | "media2"

/** Some devices offer Media 2 for profiles and encoders, and everything else by Media 1 alone. */
export const onMedia =
  (media2: boolean) =>
  <A, E extends { readonly _tag: string } = DeviceError>(
    work: (service: MediaService) => Effect.Effect<A, E>,
  ): Effect.Effect<A, E> =>
    media2 ?
      work("media2").pipe(Effect.catch((first) =>
        first instanceof OnvifOperationUnsupported ?
          Effect.mapError(work("media"), (second) => second instanceof OnvifOperationUnsupported ? first : second) :
          Effect.fail(first)
      )) :
      work("media")

/** The entry whose value it is. */
export const wordFor = <Word extends string>(
  words: Readonly<Record<Word, string>>,
  told: string | undefined,
): Word | null => {
  const spelt = told?.trim().toLowerCase()
  for (const word in words) if (words[word].toLowerCase() === spelt) return word
  return null
}

export const isTrue = (told: string | undefined): boolean => told?.trim() === "true" || told?.trim() === "1"

export const configurationToken = (token: string) => `<ConfigurationToken>${escaped(token)}</ConfigurationToken>`

/** One thing that was asked for and is not allowed; null: it is. */
export type Fault = InvalidInput | null

const at = (pointer: string, allowed: string): Fault =>
  InvalidInput.at(`/payload/${pointer}`, `the camera allows ${allowed}`)

/** The first that is one. */
export const firstFault = (...faults: ReadonlyArray<Fault>): Effect.Effect<void, InvalidInput> => {
  const found = faults.find((fault) => fault !== null)
  return found === undefined || found === null ? Effect.void : Effect.fail(found)
}

/** `options` null: the device does not tell. */
export const withinRange = (pointer: string, value: number | undefined, options: Range | null): Fault =>
  value === undefined || options === null || (value >= options.min && value <= options.max) ?
    null :
    at(pointer, `from ${options.min} to ${options.max}`)

/** An empty list: the device does not tell. */
export const oneOf = <A extends string | number>(
  pointer: string,
  value: A | undefined,
  options: ReadonlyArray<A>,
): Fault =>
  value === undefined || options.length === 0 || options.includes(value) ? null : at(pointer, options.join(", "))
