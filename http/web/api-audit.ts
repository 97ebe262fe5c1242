/** What the page of the audit log asks of the node. */
import { etag } from "#http/contract/conventions.ts"
import type {
  AuditEntry,
  AuditFilter,
  AuditSettings,
  AuditSettingsUpdate,
  AuditVerification,
} from "#schema/auth-audit.ts"
import { call, readFile } from "./api.ts"

/** Members that are set: the interface takes none that is undefined. */
type Query = { readonly [K in keyof AuditFilter]?: Exclude<AuditFilter[K], undefined> }

const pageSize = 100

export interface AuditList {
  readonly items: ReadonlyArray<AuditEntry>
  /** There are older ones. */
  readonly more: boolean
}

/** The newest entries that fit, in whole pages until there are `wanted`. */
export const auditEntries = async (filter: Query, wanted: number): Promise<AuditList> => {
  const items: Array<AuditEntry> = []
  let cursor: string | null = null
  do {
    const query: Query & { readonly limit: number; readonly cursor?: string } = {
      ...filter,
      limit: pageSize,
      ...(cursor === null ? {} : { cursor }),
    }
    const page = await call((api) => api.audit.list({ query }))
    items.push(...page.items)
    cursor = page.nextCursor
  } while (cursor !== null && items.length < wanted)
  return { items, more: cursor !== null }
}

export const auditEntry = (id: string) => call((api) => api.audit.get({ params: { id } }))

export const auditStats = (timeZone: string) => call((api) => api.audit.stats({ query: { timeZone } }))

/** Walks the whole log, part by part; `onPart` hears of each. Stops at the first bad entry, or when told to. */
export const verifyAudit = async (
  onPart: (part: AuditVerification) => void,
  signal: AbortSignal,
): Promise<AuditVerification> => {
  let from: number | null = null
  let checked = 0
  for (;;) {
    const query: { readonly from?: number } = from === null ? {} : { from }
    const part: AuditVerification = await call((api) => api.audit.verify({ query }))
    checked += part.checked
    const sum = { ...part, checked }
    onPart(sum)
    if (!part.intact || part.complete || part.next === null || signal.aborted) return sum
    from = part.next
  }
}

/** Every entry that fits, oldest first, as a file. */
export const exportAudit = (
  format: "csv" | "json",
  filter: Query,
  onBytes: (bytes: number) => void,
  signal: AbortSignal,
): Promise<Blob> => {
  const query = new URLSearchParams()
  for (const [name, value] of Object.entries(filter)) {
    query.set(name, typeof value === "number" ? new Date(value).toISOString() : value)
  }
  return readFile(`/auth/api/v1/audit/export/${format}?${query}`, onBytes, signal)
}

export const auditSettings = async () => (await call((api) => api.audit.settings())).body
export const updateAuditSettings = ({ version }: AuditSettings, payload: AuditSettingsUpdate) =>
  call((api) => api.audit.updateSettings({ headers: { "if-match": etag(version) }, payload }))
