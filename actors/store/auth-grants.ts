/** SQL of who holds what, by name. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export const AuthGrantsStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  /** Names that differ in case or in Unicode form only are one name. */
  holder: (username: string) =>
    Effect.map(
      sql<{ readonly username: string; readonly enabled: boolean; readonly roles: ReadonlyArray<string> }>`
        SELECT u.username, u.enabled,
          ARRAY(SELECT r.role FROM auth_user_role r WHERE r.user_id = u.id ORDER BY r.role) AS roles
        FROM auth_user u WHERE u.username_key = ${username.normalize("NFKC").toLowerCase()}`,
      ([row]) => row ?? null,
    ),
}))
