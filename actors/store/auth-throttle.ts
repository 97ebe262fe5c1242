/**
 * Memory of failed sign-ins, by account and by address, kept across restarts and shared by all nodes.
 *
 * Invariants
 * 1. An attempt counts as failed before its password is checked: attempts at the same moment cannot share one count.
 * 2. The wait after a failure doubles from the first to the longest; a day without attempts forgets.
 * 3. What is not locked is locked until the epoch, never until some "now": of attempts at once, on several clocks, one has
 *    an earlier now than another and must not take it for a lock.
 * 4. An attempt while locked is not counted, so nobody is locked out for ever by somebody who keeps trying.
 */
import { addressOf } from "#schema/auth-network.ts"
import type { EpochMs } from "#schema/common.ts"
import { Effect } from "effect"
import { IpNetwork, NetAddress } from "effect/net"
import { SqlClient } from "effect/sql"
import { createHash } from "node:crypto"
import { usernameKey } from "./auth-users.ts"

/** One thing that failures are counted for. */
export interface ThrottleSubject {
  /** See {@link accountSubject} and {@link addressSubject}. */
  readonly subject: string
  /** Failures that cost no wait. */
  readonly free: number
}

/** How long the waits are, in milliseconds. */
export interface ThrottleWaits {
  readonly firstMs: number
  readonly longestMs: number
}

/** A name can be long and is the client's: its hash has a bounded length. */
export const accountSubject = (username: string): string =>
  `account:${createHash("sha256").update(usernameKey(username)).digest("base64url")}`

/** Bits of an IPv6 address that tell one customer of a provider from another (RFC 6177); the rest is theirs to choose. */
const customerBits = 64

/** `null`: the address is not known, so nothing is counted for it. */
export const addressSubject = (address: string): string | null => {
  if (address === "") return null
  const ip = addressOf(address)
  return ip === null || NetAddress.width(ip) === 32 ?
    `address:${address}` :
    `address:${IpNetwork.format(IpNetwork.fromAddressUnsafe(ip, customerBits))}`
}

const forgetMs = 86_400_000
const notLocked = new Date(0)

/** Milliseconds to wait after the `failures`th failure. */
export const waitAfter = (failures: number, free: number, { firstMs, longestMs }: ThrottleWaits): number =>
  failures < free ? 0 : Math.min(longestMs, firstMs * 2 ** Math.min(failures - free, 30))

export const AuthThrottleStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  /** Counts an attempt for all subjects, or answers (epoch ms) until when one of them is locked. */
  begin: (subjects: ReadonlyArray<ThrottleSubject>, waits: ThrottleWaits, nowMs: EpochMs) =>
    sql.withTransaction(Effect.gen(function*() {
      const now = new Date(nowMs)
      const counted: Array<{ readonly subject: string; readonly failures: number; readonly free: number }> = []
      let lockedUntil = 0
      // In one order everywhere, so that two attempts never wait for each other in a circle.
      for (const one of subjects.toSorted((a, b) => (a.subject < b.subject ? -1 : 1))) {
        const [row] = (yield* sql`
          INSERT INTO auth_throttle (subject, failures, locked_until, updated_at) VALUES (${one.subject}, 0, ${notLocked}, ${now})
          ON CONFLICT (subject) DO UPDATE SET updated_at = excluded.updated_at,
            failures = CASE WHEN auth_throttle.updated_at < ${new Date(
          nowMs - forgetMs,
        )} THEN 0 ELSE auth_throttle.failures END
          RETURNING failures, locked_until AS "lockedUntil"`) as unknown as [{ failures: number; lockedUntil: Date }]
        counted.push({ ...one, failures: row.failures + 1 })
        lockedUntil = Math.max(lockedUntil, row.lockedUntil.getTime())
      }
      if (lockedUntil > nowMs) return lockedUntil
      for (const one of counted) {
        const waitMs = waitAfter(one.failures, one.free, waits)
        yield* sql`
          UPDATE auth_throttle SET failures = ${one.failures},
            locked_until = ${waitMs === 0 ? notLocked : new Date(nowMs + waitMs)}
          WHERE subject = ${one.subject}`
      }
      return null
    })),
  /** The attempt succeeded: the account is forgotten, the address gets its count back. */
  succeed: (account: string, address: string | null) =>
    Effect.all([
      sql`DELETE FROM auth_throttle WHERE subject = ${account}`,
      sql`
        UPDATE auth_throttle SET failures = greatest(failures - 1, 0), locked_until = ${notLocked}
        WHERE subject = ${address ?? ""}`,
    ], { discard: true }),
  /** The attempt was neither right nor wrong: it gives back its own count. */
  forgive: (subjects: ReadonlyArray<string>) =>
    sql`
      UPDATE auth_throttle SET failures = greatest(failures - 1, 0), locked_until = ${notLocked}
      WHERE subject IN ${sql.in(subjects)}`,
  /** Until when subjects are locked (epoch ms); those that are not are not among them. */
  locked: (subjects: ReadonlyArray<string>, nowMs: EpochMs) =>
    subjects.length === 0 ?
      Effect.succeed(new Map<string, EpochMs>()) :
      Effect.map(
        sql<{ readonly subject: string; readonly until: Date }>`
          SELECT subject, locked_until AS until FROM auth_throttle
          WHERE subject IN ${sql.in(subjects)} AND locked_until > ${new Date(nowMs)}`,
        (rows) => new Map(rows.map(({ subject, until }) => [subject, until.getTime()])),
      ),
  release: (subject: string) => Effect.asVoid(sql`DELETE FROM auth_throttle WHERE subject = ${subject}`),
}))
export type AuthThrottleStore = Effect.Success<typeof AuthThrottleStore>
