/**
 * Words of trust between nodes: how one proves to another who it is. Design: failover, "Pairing".
 *
 * Invariants
 * 1. What a node shows is bound to its key (DPoP, RFC 9449): whoever took it away cannot use it.
 */
import { Schema } from "effect"

/**
 * The proof lacks a nonce of this server, or has one that is too old: the caller proves again with that of the header `DPoP-Nonce`
 * (RFC 9449, section 8). Nonces replace the comparison of clocks.
 */
export class UseDpopNonce extends Schema.TaggedError<UseDpopNonce>()("UseDpopNonce", {}, { httpApiStatus: 401 }) {
  override get message(): string {
    return "The proof needs the nonce of the header DPoP-Nonce"
  }
}

/** What the token of a peer is sealed for, by the id of the pairing. */
export const peerTokenSecret = (id: string): string => `auth/peer-token/${id}`
