/**
 * Passwords of journals and conflicts: in and out of the columns that keep them sealed.
 *
 * Invariants
 * 1. In the place of a password's value stands whether there is one.
 * 2. What the vault cannot open is told in the log by its place, and counts as no password.
 */
import type { ConflictRow, JournalRow } from "#actors/store/federation-journal.ts"
import { type Conflict } from "#cluster/journal.ts"
import type { NodeId } from "#schema/common.ts"
import {
  asFields,
  type ConflictId,
  conflictSecret,
  type Fields,
  type JournalEntry,
  journalSecret,
  wholeThing,
} from "#schema/federation-journal.ts"
import type { Vault } from "#schema/vault.ts"
import { Effect, Redacted, type Schema } from "effect"

type Json = Schema.Json

/** Fields of a thing as a whole, with a password among them. */
const secretOf = (value: Json): Fields | null => {
  const fields = asFields(value)
  return fields !== null && "password" in fields ? fields : null
}

export const makeSealing = (vault: Vault["Service"]) => {
  const open = (context: string, sealed: string | null) =>
    sealed === null ?
      Effect.succeed(null) :
      vault.open(context, sealed).pipe(
        Effect.map((secret): string | null => Redacted.value(secret)),
        Effect.catchTag(
          "VaultError",
          (error) =>
            Effect.as(Effect.logError("A changed password cannot be opened", { context, reason: error.reason }), null),
        ),
      )
  const seal = (context: string, secret: Json | undefined) =>
    typeof secret === "string" ? vault.seal(context, Redacted.make(secret)) : Effect.succeed(null)

  const fieldsOf = Effect.fnUntraced(function*(context: string, fields: Fields | null, sealed: string | null) {
    return fields === null || !("password" in fields) ? fields : { ...fields, password: yield* open(context, sealed) }
  })
  /** With its password, for the home node. */
  const entryOf = Effect.fnUntraced(function*(row: JournalRow): Effect.fn.Return<JournalEntry> {
    const { sealedAfter, sealedBefore, ...entry } = row
    const context = journalSecret(row.entryId)
    return {
      ...entry,
      before: yield* fieldsOf(context, row.before, sealedBefore),
      after: yield* fieldsOf(context, row.after, sealedAfter),
    }
  })

  /** One side of a conflict as it is kept: what may be read, and what is sealed. */
  const kept = Effect.fnUntraced(function*(context: string, field: string, value: Json) {
    if (field === "password") return { json: value !== null, sealed: yield* seal(context, value) }
    const fields = field === wholeThing ? secretOf(value) : null
    if (fields === null) return { json: value, sealed: null }
    const password = fields["password"] ?? null
    return { json: { ...fields, password: password !== null }, sealed: yield* seal(context, password) }
  })
  const told = Effect.fnUntraced(
    function*(context: string, field: string, json: Json, sealed: string | null): Effect.fn.Return<Json> {
      if (field === "password") return yield* open(context, sealed)
      const fields = field === wholeThing ? secretOf(json) : null
      return fields === null ? json : { ...fields, password: yield* open(context, sealed) }
    },
  )

  return {
    entryOf,
    rowOf: Effect.fnUntraced(
      function*(conflictId: ConflictId, guardianNodeId: NodeId, conflict: Conflict): Effect.fn.Return<ConflictRow> {
        const context = conflictSecret(conflictId)
        const { field } = conflict
        const base = yield* kept(context, field, conflict.base)
        const here = yield* kept(context, field, conflict.here)
        const there = yield* kept(context, field, conflict.there)
        return {
          ...conflict,
          conflictId,
          guardianNodeId,
          base: base.json,
          here: here.json,
          there: there.json,
          sealedBase: base.sealed,
          sealedHere: here.sealed,
          sealedThere: there.sealed,
        }
      },
    ),
    conflictOf: Effect.fnUntraced(function*(row: ConflictRow): Effect.fn.Return<Conflict> {
      const { cameraId, channelId, field, hereMs, id, inForce, kind, thereBy, thereMs } = row
      const context = conflictSecret(row.conflictId)
      const values = {
        base: yield* told(context, field, row.base, row.sealedBase),
        here: yield* told(context, field, row.here, row.sealedHere),
        there: yield* told(context, field, row.there, row.sealedThere),
      }
      return { cameraId, channelId, field, hereMs, id, inForce, kind, thereBy, thereMs, ...values }
    }),
  }
}
export type Sealing = ReturnType<typeof makeSealing>
