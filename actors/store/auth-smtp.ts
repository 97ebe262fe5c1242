/** SQL of the mail server's settings: one row, or none while none was set. The password stands in it sealed. */
import type { MailSecurity } from "#schema/auth-smtp.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

export interface SmtpRow {
  readonly host: string
  readonly port: number
  readonly security: MailSecurity
  readonly username: string | null
  readonly sealedPassword: string | null
  readonly fromAddress: string
  readonly caCertificate: string | null
  readonly allowUnverified: boolean
  readonly version: number
}

export const AuthSmtpStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  get: Effect.suspend(() =>
    Effect.map(
      sql<SmtpRow>`
        SELECT host, port, security, username, sealed_password AS "sealedPassword", from_address AS "fromAddress",
          ca_certificate AS "caCertificate", allow_unverified AS "allowUnverified", version
        FROM auth_smtp`,
      (rows) => rows[0] ?? null,
    )
  ),
  put: (row: SmtpRow) =>
    sql`
      INSERT INTO auth_smtp (host, port, security, username, sealed_password, from_address, ca_certificate,
        allow_unverified, version)
      VALUES (${row.host}, ${row.port}, ${row.security}, ${row.username}, ${row.sealedPassword}, ${row.fromAddress},
        ${row.caCertificate}, ${row.allowUnverified}, ${row.version})
      ON CONFLICT ("only") DO UPDATE SET host = excluded.host, port = excluded.port, security = excluded.security,
        username = excluded.username, sealed_password = excluded.sealed_password, from_address = excluded.from_address,
        ca_certificate = excluded.ca_certificate, allow_unverified = excluded.allow_unverified, version = excluded.version`,
  /** One change at a time: two first writers would both find no row. */
  changing: <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    sql.withTransaction(Effect.andThen(sql`LOCK TABLE auth_smtp IN SHARE ROW EXCLUSIVE MODE`, work)),
}))
export type AuthSmtpStore = Effect.Success<typeof AuthSmtpStore>
