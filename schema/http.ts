/**
 * Words of idempotent requests: a request as a hash, and its answer as it was sent
 * (draft-ietf-httpapi-idempotency-key-header).
 */

/** An answer as it was sent. */
export interface KeptAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Uint8Array
}

export interface IdempotentRequest {
  /** Keys of one user do not meet those of another. */
  readonly userId: string
  readonly key: string
  /** SHA-256 of method, path and body. */
  readonly fingerprint: Uint8Array
}
