/** What the pages of rules and of Web Push ask of the node. */
import { etag } from "#http/contract/conventions.ts"
import type { PopupRule, PopupRuleInput, PushSubscriptionInput } from "#schema/notification-rules.ts"
import { call, everything } from "./api.ts"

export const listRules = () => everything((api, query) => api.notificationRules.popupRules({ query }))
export const createRule = async (payload: PopupRuleInput) =>
  (await call((api) => api.notificationRules.createPopupRule({ headers: {}, payload }))).body
export const updateRule = async ({ id, version }: PopupRule, payload: PopupRuleInput) =>
  (await call((api) =>
    api.notificationRules.updatePopupRule({ params: { id }, headers: { "if-match": etag(version) }, payload })
  )).body
export const toggleRule = ({ active, id, version }: PopupRule) =>
  call((api) =>
    api.notificationRules.togglePopupRule({
      params: { id },
      headers: { "if-match": etag(version) },
      payload: { active: !active },
    })
  )
export const deleteRule = ({ id, version }: PopupRule) =>
  call((api) => api.notificationRules.deletePopupRule({ params: { id }, headers: { "if-match": etag(version) } }))
export const testRule = ({ id }: PopupRule) => call((api) => api.notificationRules.testPopupRule({ params: { id } }))
/** The newest fifty. */
export const deliveriesOf = async ({ id }: PopupRule) =>
  (await call((api) => api.notificationRules.popupDeliveries({ params: { id }, query: { limit: 50 } }))).items

export const pushKey = async () => (await call((api) => api.notificationRules.pushKey())).publicKey
export const listPush = async () => (await call((api) => api.notificationRules.pushSubscriptions())).items
export const addPush = async (payload: PushSubscriptionInput) =>
  (await call((api) => api.notificationRules.addPushSubscription({ headers: {}, payload }))).body
export const removePush = (id: string) =>
  call((api) => api.notificationRules.removePushSubscription({ params: { id } }))
