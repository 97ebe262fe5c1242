/** SQL of the security settings: one row, or none while nobody changed them. */
import { defaultSecuritySettings, type SecuritySettings, SecuritySettingsChange } from "#schema/auth-security.ts"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"

interface Row {
  readonly settings: unknown
  readonly version: number
}

/** What this release does not know, of a later one, is left alone; what is missing has its default. */
const decode = Schema.decodeUnknownEffect(SecuritySettingsChange)

const settingsOf = (rows: ReadonlyArray<Row>): Effect.Effect<SecuritySettings> => {
  const [row] = rows
  if (row === undefined) return Effect.succeed(defaultSecuritySettings)
  return Effect.map(
    Effect.orDie(decode(row.settings)),
    (changed): SecuritySettings => ({ ...defaultSecuritySettings, ...changed, version: row.version }),
  )
}

export const AuthSecurityStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  read: Effect.flatMap(sql<Row>`SELECT settings, version FROM auth_security`, settingsOf),
  /** What `next` makes of them, with the next version; two at once wait for each other. */
  change: <E>(next: (now: SecuritySettings) => Effect.Effect<SecuritySettings, E>) =>
    sql.withTransaction(Effect.gen(function*() {
      // Two first writers would both find no row: the lock makes one of them wait.
      yield* sql`LOCK TABLE auth_security IN SHARE ROW EXCLUSIVE MODE`
      const now = yield* Effect.flatMap(sql<Row>`SELECT settings, version FROM auth_security`, settingsOf)
      const { version: _, ...settings } = yield* next(now)
      const version = now.version + 1
      yield* sql`
        INSERT INTO auth_security (settings, version) VALUES (${JSON.stringify(settings)}::text::jsonb, ${version})
        ON CONFLICT ("only") DO UPDATE SET settings = auth_security.settings || excluded.settings, version = excluded.version`
      return { ...settings, version } satisfies SecuritySettings
    })),
}))
export type AuthSecurityStore = Effect.Success<typeof AuthSecurityStore>
