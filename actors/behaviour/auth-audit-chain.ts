/**
 * One link of the audit chain: what is hashed, how, and what shows that this node wrote it. Pure.
 *
 *     hash = SHA-256 over the canonical JSON (RFC 8785) of the entry as the interface shows it, but for `hash` itself
 *     mac  = HMAC-SHA-256 over the hash, under a key that only this node can make
 *
 * Anybody can follow the hashes of an export; only the node that wrote an entry can tell that nobody else did.
 *
 * Invariants
 * 1. What is hashed is decided by the row alone: whichever column of an entry is changed, the hash that it should have changes.
 * 2. A fact that was settled has texts that PostgreSQL and canonical JSON both take, within {@link auditLimits}.
 */
import type { NodeIdentity } from "#cluster/identity.ts"
import { type AuditEntry, type AuditFact, auditLimits, type QueuedFact } from "#schema/auth-audit.ts"
import { NodeId } from "#schema/common.ts"
import canonicalize from "canonicalize"
import type { Schema } from "effect"
import { createHmac, createSecretKey, hash, hkdfSync, timingSafeEqual } from "node:crypto"
import type { ChainPoint, ChainRow } from "../store/auth-audit-chain.ts"

/** RFC 8785. Every value here has a canonical form: it came from JSON and was settled. */
export const canonical = (value: unknown): string => canonicalize(value) ?? "null"

/** Well-formed Unicode without NUL, which a text of PostgreSQL cannot hold, cut to a length. */
const settleText = (text: string, longest: number): string =>
  text.slice(0, longest).toWellFormed().replaceAll("\u0000", "\ufffd")

const settleNullable = (text: string | null, longest: number) => text === null ? null : settleText(text, longest)

/** JSON within JSON: texts well-formed, numbers finite, at most eight levels deep. */
const settleJson = (value: Schema.Json, depth = 0): Schema.Json => {
  if (typeof value === "string") return settleText(value, auditLimits.detail)
  if (typeof value === "number") return Number.isFinite(value) ? value : null
  if (value === null || typeof value === "boolean") return value
  if (depth > 8) return null
  if (Array.isArray(value)) return value.map((one: Schema.Json) => settleJson(one, depth + 1))
  return Object.fromEntries(
    Object.entries(value as Record<string, Schema.Json>).map((
      [name, one],
    ) => [settleText(name, auditLimits.name), settleJson(one, depth + 1)]),
  )
}

/** Invariant 2. */
export const settleFact = (fact: AuditFact): AuditFact => {
  const detail = settleJson(fact.detail) as Record<string, Schema.Json>
  const size = canonical(detail).length
  return {
    ...fact,
    action: settleText(fact.action, auditLimits.action),
    actor: {
      kind: fact.actor.kind,
      id: settleNullable(fact.actor.id, auditLimits.name),
      name: settleNullable(fact.actor.name, auditLimits.name),
      sessionId: settleNullable(fact.actor.sessionId, auditLimits.name),
    },
    address: settleText(fact.address, auditLimits.address),
    userAgent: settleText(fact.userAgent, auditLimits.userAgent),
    traceId: settleNullable(fact.traceId, auditLimits.name),
    resource: fact.resource === null ? null : {
      kind: settleText(fact.resource.kind, auditLimits.name),
      id: settleText(fact.resource.id, auditLimits.resource),
    },
    detail: size <= auditLimits.detail ? detail : { omitted: `${size} characters` },
  }
}

/** A detail that somebody wrote into the table by hand is shown as it is: the log must stay readable where it was tampered with. */
const detailOf = (stored: string): AuditEntry["detail"] => {
  try {
    const detail: unknown = JSON.parse(stored)
    if (typeof detail === "object" && detail !== null && !Array.isArray(detail)) return detail as AuditEntry["detail"]
  } catch {
    // Not JSON.
  }
  return { unreadable: stored.slice(0, auditLimits.detail) }
}

/** What stands in a row, as the interface shows it. */
export const entryOf = (row: ChainRow): AuditEntry => ({
  id: row.id,
  sequence: row.sequence,
  time: row.timeMs,
  nodeId: NodeId.make(row.nodeId),
  action: row.action,
  outcome: row.outcome as AuditEntry["outcome"],
  actor: {
    kind: row.actorKind as AuditEntry["actor"]["kind"],
    id: row.actorId,
    name: row.actorName,
    sessionId: row.sessionId,
  },
  address: row.address,
  userAgent: row.userAgent,
  resource: row.resourceKind === null || row.resourceId === null ?
    null :
    { kind: row.resourceKind, id: row.resourceId },
  status: row.status,
  traceId: row.traceId,
  origin: row.origin as AuditEntry["origin"],
  detail: detailOf(row.detail),
  previousHash: row.previousHash,
  hash: row.hash,
})

const text = (value: string | number | null): string => JSON.stringify(value)

/**
 * The canonical JSON of a row's entry without its hash. Written out, as its members and their order (RFC 8785, section 3.2.3)
 * never change: a verification makes a hundred thousand of them. `detail` must be canonical already.
 */
export const canonicalEntry = (row: ChainRow): string => {
  const resource = row.resourceKind === null || row.resourceId === null ?
    "null" :
    `{"id":${text(row.resourceId)},"kind":${text(row.resourceKind)}}`
  return `{"action":${text(row.action)},"actor":{"id":${text(row.actorId)},"kind":${text(row.actorKind)},"name":${
    text(row.actorName)
  },"sessionId":${text(row.sessionId)}},"address":${
    text(row.address)
  },"detail":${row.detail},"id":"${row.id}","nodeId":"${row.nodeId}","origin":${text(row.origin)},"outcome":${
    text(row.outcome)
  },"previousHash":"${row.previousHash}","resource":${resource},"sequence":${row.sequence},"status":${
    text(row.status)
  },"time":"${new Date(row.timeMs).toISOString()}","traceId":${text(row.traceId)},"userAgent":${text(row.userAgent)}}`
}

/** The hash that a row should have; `detail` must be canonical. */
const hashOf = (row: ChainRow): string => hash("sha256", canonicalEntry(row), "hex")

/** Whether the row's hash is that of its members, its detail's text included. */
export const hashFits = (row: ChainRow): boolean => {
  try {
    const spelt = row.detail === "{}" || canonical(JSON.parse(row.detail)) === row.detail
    // A resource has both columns or none: half of one would not show in the members.
    return spelt && (row.resourceKind === null) === (row.resourceId === null) && hashOf(row) === row.hash
  } catch {
    return false
  }
}

/** What this node marks its entries with. */
export interface AuditSeal {
  readonly nodeId: NodeId
  /** Hexadecimal, of a hash in hexadecimal. */
  readonly mac: (hash: string) => string
  readonly fits: (hash: string, mac: string) => boolean
}

/** The key is derived (RFC 5869) from the node's identity and kept nowhere. */
export const auditSeal = (identity: NodeIdentity["Service"]): AuditSeal => {
  const secret = identity.signing.privateKey.export({ format: "der", type: "pkcs8" })
  const key = createSecretKey(Buffer.from(hkdfSync("sha256", secret, new Uint8Array(0), "nightjar/audit/mac/1", 32)))
  const digest = (hash: string) => createHmac("sha256", key).update(hash, "hex").digest()
  return {
    nodeId: identity.nodeId,
    mac: (hash) => digest(hash).toString("hex"),
    fits: (hash, mac) => {
      const given = Buffer.from(mac, "hex")
      const own = digest(hash)
      return given.length === own.length && timingSafeEqual(given, own)
    },
  }
}

/** The rows of facts that come behind `head`. */
export const linkFacts =
  (seal: AuditSeal) => (head: ChainPoint, facts: ReadonlyArray<QueuedFact>): ReadonlyArray<ChainRow> => {
    let { hash: previousHash, sequence } = head
    return facts.map((fact) => {
      sequence++
      const unlinked: ChainRow = {
        sequence,
        id: fact.id,
        timeMs: fact.timeMs,
        nodeId: fact.nodeId,
        action: fact.action,
        outcome: fact.outcome,
        actorKind: fact.actor.kind,
        actorId: fact.actor.id,
        actorName: fact.actor.name,
        sessionId: fact.actor.sessionId,
        address: fact.address,
        userAgent: fact.userAgent,
        resourceKind: fact.resource?.kind ?? null,
        resourceId: fact.resource?.id ?? null,
        status: fact.status,
        traceId: fact.traceId,
        origin: fact.origin,
        detail: canonical(fact.detail),
        previousHash,
        hash: "",
        mac: "",
      }
      previousHash = hashOf(unlinked)
      return { ...unlinked, hash: previousHash, mac: seal.mac(previousHash) }
    })
  }
