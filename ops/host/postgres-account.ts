/**
 * The account PostgreSQL runs under. It refuses to run as root, so a node that does lends it another account.
 *
 * Invariants
 * 1. A node that is not root runs PostgreSQL under its own account.
 * 2. A root node keeps to the account that owns the data already; for new data the first of {@link candidates} that exists.
 *    initdb wants an account with an entry in the list of users.
 */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { stat } from "node:fs/promises"
import { promisify } from "node:util"
import { attempt, PostgresError } from "./postgres-error.ts"

export interface Account {
  readonly uid: number
  readonly gid: number
}

const candidates = ["nightjar", "postgres", "nobody"] as const

const run = promisify(execFile)

/** `id` asks whatever the system keeps its users in; it is part of every system we run on. */
const lookUp = (name: string): Effect.Effect<Account | null> =>
  attempt("look up an account", async () => {
    const [uid, gid] = await Promise.all(
      ["-u", "-g"].map(async (what) => Number((await run("id", [what, "--", name])).stdout)),
    )
    return { uid: uid!, gid: gid! }
  }).pipe(Effect.orElseSucceed(() => null))

/** Owner of `data`, `null` where there is none yet. */
const ownerOf = (data: string): Effect.Effect<Account | null> =>
  attempt("look at the data", () => stat(data)).pipe(
    Effect.map(({ uid, gid }) => ({ uid, gid })),
    Effect.orElseSucceed(() => null),
  )

/** The account to switch to, `null` to stay the one this process has. */
export const accountFor = (data: string): Effect.Effect<Account | null, PostgresError> =>
  Effect.gen(function*() {
    const self = process.getuid?.()
    const owner = yield* ownerOf(data)
    if (self !== 0) {
      if (owner !== null && owner.uid !== self) {
        return yield* new PostgresError({
          step: "choose an account",
          detail: `${data} belongs to user ${owner.uid}, this node runs as user ${self}`,
        })
      }
      return null
    }
    if (owner !== null && owner.uid !== 0) return owner
    for (const name of candidates) {
      const account = yield* lookUp(name)
      if (account !== null && account.uid !== 0) return account
    }
    return yield* new PostgresError({
      step: "choose an account",
      detail: `it may not run as root, and there is no user ${candidates.join(", ")}`,
    })
  })
