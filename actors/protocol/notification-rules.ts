/**
 * Popup rules, what they deliver, and the push subscriptions of users.
 *
 * Invariants
 * 1. An event is delivered once for each rule that it matches, channel and recipient: what is to be delivered is written down in the
 *    transaction that moves on in the log of events.
 * 2. A delivery survives restarts and is tried again until it succeeds, its attempts are used up, or the other side says never.
 * 3. Nobody is told of what he may not see.
 */
import type { PageOf, PageRequest } from "#schema/common.ts"
import type {
  Delivery,
  PopupRule,
  PopupRuleId,
  PopupRuleInput,
  PopupRuleNotFound,
  PopupRulesExhausted,
  PushSubscription,
  PushSubscriptionInput,
  PushSubscriptionNotFound,
  RuleTest,
  WrittenRule,
} from "#schema/notification-rules.ts"
import type { ResourceRef, UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable, InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Context, Effect } from "effect"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>
type OfRule<A, E = never> = Answer<A, E | PopupRuleNotFound>

export class PopupRules extends Context.Service<PopupRules, {
  /** By name. */
  readonly list: (active: boolean | null, page: PageRequest) => Answer<PageOf<PopupRule>, InvalidCursor>
  readonly get: (id: PopupRuleId) => OfRule<PopupRule>
  readonly create: (input: PopupRuleInput) => Answer<WrittenRule, InvalidInput | PopupRulesExhausted>
  readonly update: (
    id: PopupRuleId,
    input: PopupRuleInput,
    ifMatch: number | null,
  ) => OfRule<WrittenRule, InvalidInput | VersionConflict>
  readonly toggle: (id: PopupRuleId, active: boolean, ifMatch: number | null) => OfRule<PopupRule, VersionConflict>
  readonly remove: (id: PopupRuleId, ifMatch: number | null) => OfRule<void, VersionConflict>
  readonly test: (id: PopupRuleId) => OfRule<RuleTest>
  /** Newest first. */
  readonly deliveries: (id: PopupRuleId, page: PageRequest) => OfRule<PageOf<Delivery>, InvalidCursor>
}>()("nightjar/actors/PopupRules") {}

export class Push extends Context.Service<Push, {
  readonly publicKey: () => Answer<string>
  readonly list: (who: UserPrincipal) => Answer<ReadonlyArray<PushSubscription>>
  readonly add: (
    who: UserPrincipal,
    input: PushSubscriptionInput,
    userAgent: string,
  ) => Answer<PushSubscription, InvalidInput>
  readonly remove: (who: UserPrincipal, id: string) => Answer<void, PushSubscriptionNotFound>
}>()("nightjar/actors/Push") {}

/** A picture of what an event is about. */
export interface Snapshot {
  readonly filename: string
  readonly contentType: string
  readonly content: Uint8Array
}

/** Pictures for mails. Without a layer of the media there are none. */
export const Snapshots = Context.Reference<{
  /** The newest picture of what an event happened to; `null`: there is none. */
  readonly newest: (of: ReadonlyArray<ResourceRef>) => Effect.Effect<Snapshot | null>
}>("nightjar/actors/Snapshots", { defaultValue: () => ({ newest: () => Effect.succeed(null) }) })
