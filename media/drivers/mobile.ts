/**
 * A phone: it is not called, it comes and publishes (`media/publish.ts`).
 *
 * Invariants
 * 1. While it is away nothing is tried; the moment it comes it is taken.
 * 2. A key picture is asked for every {@link keyEveryMs}: browsers send one only when asked, and groups of pictures bound what a viewer
 *    waits for and what a loss costs.
 */
import { Effect, Schedule } from "effect"
import type { Publishers } from "../publish.ts"
import { type SourceDriver, SourceError } from "../source.ts"

const keyEveryMs = 2_000

const away = (address: string, detail: string) =>
  new SourceError({
    reason: "publisherAway",
    host: "phone",
    path: `/${address.slice(address.indexOf(":") + 1)}`,
    packet: 0,
    byte: 0,
    detail,
  })

export const mobileDriver = (publishers: Publishers["Service"]): SourceDriver => ({
  comes: {
    isHere: ({ url }) => publishers.isHere(url),
    arrival: ({ url }) =>
      Effect.callback<void>((resume) => {
        const forget = publishers.whenHere(url, () => resume(Effect.void))
        return Effect.sync(forget)
      }),
    awayText: "waiting for the phone: it is not sending",
  },
  open: ({ url }, listener) =>
    Effect.raceFirst(
      Effect.callback<never, SourceError>((resume) => {
        const leave = publishers.take(url, listener, () => resume(Effect.fail(away(url, "the phone ceased to send"))))
        if (leave === null) return resume(Effect.fail(away(url, "the phone is not sending")))
        return Effect.sync(leave)
      }),
      Effect.andThen(
        Effect.repeat(Effect.sync(() => publishers.requestKeyPicture(url)), Schedule.spaced(keyEveryMs)),
        Effect.never,
      ),
    ),
})
