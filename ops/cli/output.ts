/** What commands print: a table for people, JSON for scripts (`--json`). */
import { Console, type Effect } from "effect"
import { Flag } from "effect/cli"

export const jsonFlag = Flag.Boolean("json").pipe(
  Flag.withDescription("Print JSON instead of a table"),
  Flag.withDefault(false),
)

/** Columns by name; cells are printed as they are. */
export type Row = Readonly<Record<string, string | number | boolean | null>>

const table = (rows: ReadonlyArray<Row>): string => {
  const columns = Object.keys(rows[0] ?? {})
  const cells = rows.map((row) => columns.map((column) => String(row[column] ?? "")))
  const widths = columns.map((column, i) => Math.max(column.length, ...cells.map((row) => row[i]!.length)))
  const line = (row: ReadonlyArray<string>) => row.map((cell, i) => cell.padEnd(widths[i]!)).join("  ").trimEnd()
  return [line(columns.map((column) => column.toUpperCase())), ...cells.map(line)].join("\n")
}

/** `value` as JSON, or `rows` as a table; `empty` says what an empty table means. */
export const print = (json: boolean, value: unknown, rows: ReadonlyArray<Row>, empty: string): Effect.Effect<void> =>
  Console.log(json ? JSON.stringify(value, null, 2) : rows.length === 0 ? empty : table(rows))
