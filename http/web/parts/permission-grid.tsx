/**
 * A table of ticks, users by permissions in groups of their resource. It is one stop of the Tab key: arrow keys, Home and End
 * move within (the grid pattern of the ARIA practices).
 */
import type { User } from "#schema/auth-users.ts"
import { type Decision, type Permission, permissionDefinitions, permissionNames } from "#schema/permission.ts"
import { type KeyboardEvent, useRef, useState } from "react"
import { Icon } from "./icons.tsx"

export interface Cell {
  readonly user: User
  readonly permission: Permission
  readonly decision: Decision
}

/** The names of the resource groups of roles that are narrowed, by role. */
export type Narrowed = ReadonlyMap<string, ReadonlyArray<string>>

/** What a permission holds for, in words; null where it is not narrowed. */
export const within = ({ decision, permission }: Omit<Cell, "user">, narrowed: Narrowed): string | null => {
  const { scope } = permissionDefinitions[permission]
  if (scope === null || !decision.allowed || !decision.via.every((role) => narrowed.has(role))) return null
  const groups = [...new Set(decision.via.flatMap((role) => narrowed.get(role) ?? []))]
  return groups.length === 0 ? "no resource group, so nothing" : groups.join(", ")
}

interface Row {
  readonly user: User
  readonly decisions: ReadonlyArray<Decision>
}

interface Props {
  readonly rows: ReadonlyArray<Row>
  readonly narrowed: Narrowed
  readonly onCell: (cell: Cell) => void
}

const resourceOf = (name: string): string => name.split(":")[0] ?? ""

/** Resources with how many permissions each has, in their order. */
const resources = [...new Set(permissionNames.map(resourceOf))].map((name) =>
  [name, permissionNames.filter((one) => resourceOf(one) === name).length] as const
)

const begins = new Set(
  permissionNames.filter((name, index) => name.split(":")[0] !== permissionNames[index - 1]?.split(":")[0]),
)

interface Place {
  readonly row: number
  readonly column: number
}

const moves: Readonly<Record<string, (place: Place) => Place>> = {
  ArrowRight: ({ column, row }) => ({ row, column: column + 1 }),
  ArrowLeft: ({ column, row }) => ({ row, column: column - 1 }),
  ArrowDown: ({ column, row }) => ({ row: row + 1, column }),
  ArrowUp: ({ column, row }) => ({ row: row - 1, column }),
  Home: ({ row }) => ({ row, column: 0 }),
  End: ({ row }) => ({ row, column: permissionNames.length - 1 }),
}

const Head = () => (
  <thead>
    <tr>
      <th rowSpan={2} scope="col" className="corner">User</th>
      {resources.map(([name, count]) => <th key={name} colSpan={count} scope="colgroup" className="begins">{name}</th>)}
    </tr>
    <tr>
      {permissionNames.map((name) => (
        <th key={name} scope="col" className={begins.has(name) ? "begins" : ""}>
          <span className="upright">{name.split(":")[1]}</span>
        </th>
      ))}
    </tr>
  </thead>
)

interface TickProps {
  readonly decision: Decision
  /** What it holds for; null where it is not narrowed. */
  readonly only: string | null
  readonly label: string
  readonly place: Place
  readonly current: boolean
  readonly className: string
  readonly onFocus: () => void
}

const Tick = ({ className, current, decision, label, onFocus, only, place }: TickProps) => (
  <td
    role="gridcell"
    className={`${className} ${only !== null ? "some" : decision.allowed ? "yes" : "no"}`}
    data-place={`${place.row}-${place.column}`}
    tabIndex={current ? 0 : -1}
    aria-label={`${label}: ${only !== null ? "for some" : decision.allowed ? "yes" : "no"}. ${decision.reason}`}
    title={`${label}: ${decision.reason}${only === null ? "" : `, for ${only} only`}`}
    onFocus={onFocus}
    onPointerEnter={onFocus}
    onClick={(event) => event.currentTarget.focus()}
  >
    {decision.allowed && <Icon name={only === null ? "tick" : "some"} />}
  </td>
)

export const PermissionGrid = ({ narrowed, onCell, rows }: Props) => {
  const [at, setAt] = useState<Place>({ row: 0, column: 0 })
  const grid = useRef<HTMLTableElement>(null)
  const move = (event: KeyboardEvent) => {
    const next = moves[event.key]?.(at)
    if (next === undefined) return
    event.preventDefault()
    grid.current?.querySelector<HTMLElement>(`[data-place="${next.row}-${next.column}"]`)?.focus()
  }
  const row = Math.min(at.row, rows.length - 1)
  return (
    <div className="panel matrix">
      <table ref={grid} role="grid" aria-label="Who may what" onKeyDown={move}>
        <Head />
        <tbody>
          {rows.map(({ decisions, user }, index) => (
            <tr key={user.id}>
              <th scope="row">{user.username}</th>
              {permissionNames.map((permission, column) => {
                const decision = decisions[column]
                return decision !== undefined && (
                  <Tick
                    key={permission}
                    decision={decision}
                    only={within({ decision, permission }, narrowed)}
                    label={`${user.username}, ${permission}`}
                    place={{ row: index, column }}
                    current={index === row && column === at.column}
                    className={begins.has(permission) ? "begins" : ""}
                    onFocus={() => {
                      setAt({ row: index, column })
                      onCell({ user, permission, decision })
                    }}
                  />
                )
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  )
}
