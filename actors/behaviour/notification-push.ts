/**
 * The service `Push`: this node's key for Web Push, and the subscriptions of users.
 *
 * Invariants
 * 1. The key is made at first use and kept for life: subscriptions are bound to it. Its private half is sealed.
 * 2. The address of a subscription lets anybody who knows it disturb its user: it is sealed, and never told again.
 */
import { Push } from "#actors/protocol/notification-rules.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import {
  type PushSubscription,
  PushSubscriptionInput,
  PushSubscriptionNotFound,
  ruleLimits,
} from "#schema/notification-rules.ts"
import { InvalidInput } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Layer, Redacted, Schema } from "effect"
import { createECDH, createHash } from "node:crypto"
import webpush from "web-push"
import { answered } from "../store/answer.ts"
import { NotificationPushStore, type PushRow } from "../store/notification-push.ts"

const SealedSubscription = Schema.fromJsonString(PushSubscriptionInput)
const keyPlace = (nodeId: string) => `notification/push-key/${nodeId}`
const subscriptionPlace = (id: string) => `notification/push/${id}`

const shown = (row: Omit<PushRow, "sealed">): PushSubscription => ({
  id: row.id,
  service: row.service,
  userAgent: row.userAgent,
  createdAt: row.createdAt.getTime(),
  lastDeliveredAt: row.deliveredAt === null ? null : row.deliveredAt.getTime(),
})

/** A point of P-256 and nothing else: the message is encrypted for it. */
const isPoint = (p256dh: string): boolean => {
  try {
    const own = createECDH("prime256v1")
    own.generateKeys()
    return own.computeSecret(Buffer.from(p256dh, "base64url")).length === 32
  } catch {
    return false
  }
}

/** This node's key and what it opens. */
export const makePushKeys = Effect.gen(function*() {
  const store = yield* NotificationPushStore
  const vault = yield* Vault
  const { nodeId } = yield* NodeIdentity

  const key = Effect.gen(function*() {
    const known = yield* store.key(nodeId)
    if (known !== null) return known
    const { privateKey, publicKey } = webpush.generateVAPIDKeys()
    const sealed = yield* vault.seal(keyPlace(nodeId), Redacted.make(privateKey))
    yield* store.keepKey(nodeId, publicKey, sealed, yield* Clock.currentTimeMillis)
    return (yield* store.key(nodeId)) ?? { publicKey, sealedPrivate: sealed }
  })

  return {
    store,
    key,
    /** What a message to a subscription needs; `null` where it is gone. A secret that does not open is a defect. */
    target: Effect.fnUntraced(function*(id: string, contact: string) {
      const row = yield* store.get(id)
      if (row === null) return null
      const text = yield* Effect.orDie(vault.open(subscriptionPlace(id), row.sealed))
      const { endpoint, keys } = yield* Effect.orDie(Schema.decodeEffect(SealedSubscription)(Redacted.value(text)))
      const { publicKey, sealedPrivate } = yield* key
      const privateKey = yield* Effect.orDie(vault.open(keyPlace(nodeId), sealedPrivate))
      return { endpoint, keys, vapid: { publicKey, privateKey, subject: contact } }
    }),
    seal: (id: string, input: PushSubscriptionInput) =>
      Effect.flatMap(
        Effect.orDie(Schema.encodeEffect(SealedSubscription)(input)),
        (text) => vault.seal(subscriptionPlace(id), Redacted.make(text)),
      ),
  }
})

/** `insecure`: plain http is taken too, for tests against a push service on this machine. */
export const layer = (options: { readonly insecure: boolean }) =>
  Layer.effect(
    Push,
    Effect.gen(function*() {
      const { key, seal, store } = yield* makePushKeys
      const { nodeId } = yield* NodeIdentity
      return Push.of({
        publicKey: () => answered(Effect.map(key, ({ publicKey }) => publicKey)),
        list: (who) =>
          answered(Effect.map(store.ofUsers([who.userId], ruleLimits.subscriptions), (rows) => rows.map(shown))),
        add: Effect.fnUntraced(function*(who, input, userAgent) {
          const url = new URL(input.endpoint)
          if (url.protocol !== "https:" && !options.insecure) {
            return yield* InvalidInput.at("/payload/endpoint", "a push service is reached by https")
          }
          if (!isPoint(input.keys.p256dh)) {
            return yield* InvalidInput.at("/payload/keys/p256dh", "is no public key of P-256")
          }
          const id = yield* uuid7
          const row = {
            id,
            userId: who.userId,
            service: url.host,
            sealed: yield* seal(id, input),
            nodeId,
            userAgent,
            createdAt: new Date(yield* Clock.currentTimeMillis),
          }
          const endpointHash = createHash("sha256").update(input.endpoint).digest()
          yield* store.add({ ...row, endpointHash }, ruleLimits.subscriptions)
          return shown({ ...row, deliveredAt: null })
        }, answered),
        remove: Effect.fnUntraced(function*(who, id) {
          if (!(yield* store.remove(id, who.userId))) return yield* new PushSubscriptionNotFound({ id })
        }, answered),
      })
    }),
  )
