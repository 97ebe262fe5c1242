/** What is known of a file while it is removed, after that, and where it could not be. */
import { StorageError } from "#media/storage.ts"
import { Catalogue } from "#media/storage/catalogue.ts"
import { withDeparted } from "#media/storage/departed.ts"
import { FragmentTable } from "#media/storage/fragment-table.ts"
import { allTime } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { fragmentsFrom, identityOf } from "./made-up-files.ts"

const t0 = Date.parse("2026-11-21T10:00:00Z")
const identity = identityOf(1)
const id = "01890000-0000-7000-8000-0000000000f1"
const table = FragmentTable.of(fragmentsFrom(t0, 2).map((fragment) => ({ ...fragment, offset: 0 })))

const stage = (failing: StorageError | null) => {
  const catalogue = new Catalogue()
  const numbers = { sequence: 0, startMs: t0, endMs: t0 + 2_000, bytes: 20, fragments: 2, frames: 20 }
  catalogue.put({ id, identity, folder: "main", ...numbers, sealed: true, growing: false })
  const seen: Array<readonly [files: number, departed: boolean]> = []
  const look = () =>
    Effect.sync(() => {
      seen.push([door.files(identity.recordingId, allTime).length, door.departed(id) !== null])
    })
  const door = withDeparted(
    {
      remove: () =>
        Effect.andThen(
          Effect.suspend(look),
          failing === null ?
            Effect.sync(() => catalogue.remove(id)) :
            Effect.fail(failing),
        ),
      enforceRetention: () => Effect.die("not asked"),
    },
    { fragments: () => Effect.succeed([table]) },
    catalogue,
  )
  return { door, look, seen }
}

describe("a file that is removed", () => {
  it.effect("is remembered, and not among the files, from the moment it begins to go", () =>
    Effect.gen(function*() {
      const { door, look, seen } = stage(null)
      yield* look()
      yield* door.remove({ id, folder: "main" })
      yield* look()
      assert.deepStrictEqual(seen, [[1, false], [0, true], [0, true]])
      assert.strictEqual(door.departed(id)?.table, table)
    }))

  it.effect("is there as before where it could not be", () =>
    Effect.gen(function*() {
      const error = new StorageError({ cause: "disk_error", folder: "main", code: "EIO", detail: "" })
      const { door, look, seen } = stage(error)
      assert.strictEqual(yield* Effect.flip(door.remove({ id, folder: "main" })), error)
      yield* look()
      assert.deepStrictEqual(seen, [[0, true], [1, false]])
    }))
})
