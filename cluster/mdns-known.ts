/**
 * Nodes that were heard on the network, until their words run out.
 *
 * Invariants
 * 1. What is known of a node goes when its lifetime is over, or when it says farewell from where it was heard.
 * 2. The same id from two places is kept for both: nobody can replace a node's address by saying its name.
 * 3. Bounds: {@link mostKnown} entries, {@link mostOfOne} from one address, so that nobody who makes up nodes crowds out the others.
 */
import type { EpochMs, NodeId } from "#schema/common.ts"
import type { Heard } from "./mdns.ts"

const mostKnown = 256
const mostOfOne = 8
/** Asked again at these shares of the lifetime (RFC 6762, section 5.2). */
const refreshAt = [0.8, 0.85, 0.9, 0.95]

/** A node that may be there; none of it is proven. */
export interface FoundNode {
  readonly nodeId: NodeId
  readonly name: string
  readonly version: string
  /** `https://host:port`, or `http` where it says that it serves no TLS. */
  readonly address: string
  readonly lastHeardMs: EpochMs
}

interface Entry extends FoundNode {
  readonly host: string
  readonly lifetimeMs: number
  /** How often it was asked for since. */
  refreshed: number
}

export class KnownNodes {
  readonly #entries = new Map<string, Entry>()

  #expire(nowMs: EpochMs): void {
    for (const [key, one] of this.#entries) if (one.lastHeardMs + one.lifetimeMs <= nowMs) this.#entries.delete(key)
  }

  /** `host`: an IPv4 address, from where it was heard. */
  hear(host: string, said: Heard, nowMs: EpochMs): void {
    const key = `${said.nodeId} ${host}`
    if (said.lifetimeSeconds === 0) return void this.#entries.delete(key)
    if (!this.#entries.has(key)) {
      this.#expire(nowMs)
      const ofHost = [...this.#entries.values()].filter((one) => one.host === host).length
      if (this.#entries.size >= mostKnown || ofHost >= mostOfOne) return
    }
    this.#entries.set(key, {
      nodeId: said.nodeId,
      name: said.name,
      version: said.version,
      address: `${said.tls ? "https" : "http"}://${host}:${said.port}`,
      lastHeardMs: nowMs,
      host,
      lifetimeMs: said.lifetimeSeconds * 1000,
      refreshed: 0,
    })
  }

  leave(host: string, nodeId: NodeId): void {
    this.#entries.delete(`${nodeId} ${host}`)
  }

  /** One for each id: the one that was known first. */
  list(nowMs: EpochMs): ReadonlyArray<FoundNode> {
    this.#expire(nowMs)
    const found = new Map<NodeId, FoundNode>()
    for (const one of this.#entries.values()) if (!found.has(one.nodeId)) found.set(one.nodeId, one)
    return [...found.values()]
  }

  /** With the seconds that are left of each. */
  lasting(nowMs: EpochMs): ReadonlyArray<{ readonly nodeId: NodeId; readonly seconds: number }> {
    this.#expire(nowMs)
    return [...this.#entries.values()].map(({ lastHeardMs, lifetimeMs, nodeId }) => ({
      nodeId,
      seconds: Math.floor((lastHeardMs + lifetimeMs - nowMs) / 1000),
    }))
  }

  /** Those that are about to run out and have to be asked for now; each of the four times is told once. */
  dueForRefresh(nowMs: EpochMs): ReadonlyArray<NodeId> {
    this.#expire(nowMs)
    const due = new Set<NodeId>()
    for (const one of this.#entries.values()) {
      const share = refreshAt[one.refreshed]
      if (share === undefined || nowMs < one.lastHeardMs + share * one.lifetimeMs) continue
      one.refreshed += 1
      due.add(one.nodeId)
    }
    return [...due]
  }
}
