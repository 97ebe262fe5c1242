/**
 * Addresses from which the account of the door was guessed at: each further failure locks them for longer.
 *
 * Invariants
 * 1. The first {@link freeFailures} cost nothing; then the lock doubles from {@link firstLockMs} to {@link longestLockMs}.
 * 2. At most {@link maxAddresses} are remembered, the one that failed longest ago goes first; a success, and {@link forgetMs} without
 *    a failure, forget an address.
 * 3. Of IPv6, a whole /64 counts as one address: that is what one subscriber has.
 */
const freeFailures = 5
const firstLockMs = 2_000
const longestLockMs = 300_000
const forgetMs = 900_000
const maxAddresses = 4_096

interface Failures {
  readonly count: number
  readonly lastMs: number
}

/** What is counted together. */
const networkOf = (address: string): string => {
  if (!address.includes(":")) return address
  const [head = "", tail] = address.split("::")
  const groups = head.split(":").filter((group) => group !== "")
  const rest = tail?.split(":").filter((group) => group !== "") ?? []
  const middle = tail === undefined ?
    [] :
    Array.from({ length: Math.max(0, 8 - groups.length - rest.length) }, () => "0")
  return [...groups, ...middle, ...rest].slice(0, 4).map((group) => group.toLowerCase().replace(/^0+(?=.)/, "")).join(
    ":",
  )
}

const lockMs = (count: number): number =>
  count < freeFailures ? 0 : Math.min(longestLockMs, firstLockMs * 2 ** Math.min(20, count - freeFailures))

export class Lockout {
  private readonly failures = new Map<string, Failures>()

  isOpen(address: string, nowMs: number): boolean {
    const known = this.failures.get(networkOf(address))
    return known === undefined || nowMs - known.lastMs >= lockMs(known.count)
  }

  /** One more; what is tried while the address is locked does not lock it for longer. */
  failed(address: string, nowMs: number): void {
    const network = networkOf(address)
    const known = this.failures.get(network)
    const fresh = known === undefined || nowMs - known.lastMs > forgetMs
    if (!fresh && !this.isOpen(address, nowMs)) return
    this.failures.delete(network)
    this.failures.set(network, { count: fresh ? 1 : known.count + 1, lastMs: nowMs })
    const [oldest] = this.failures.keys()
    if (this.failures.size > maxAddresses && oldest !== undefined) this.failures.delete(oldest)
  }

  succeeded(address: string): void {
    this.failures.delete(networkOf(address))
  }
}
