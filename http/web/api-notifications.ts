/** What the bell and the page of notifications ask of the node. */
import type { Severity } from "#schema/event.ts"
import { call } from "./api.ts"

export const unreadCount = () => call((api) => api.notification.unreadCount())

export interface NotificationQuery {
  readonly unread: boolean
  readonly minimumSeverity: Severity
}

/** The newest `limit`, 500 at most; `more`: there are older ones. */
export const listNotifications = async ({ minimumSeverity, unread }: NotificationQuery, limit: number) => {
  const query = { limit, minimumSeverity, ...(unread ? { unread: "true" as const } : {}) }
  const { items, nextCursor } = await call((api) => api.notification.notifications({ query }))
  return { items, more: nextCursor !== null }
}

export const readNotification = (id: string) => call((api) => api.notification.readNotification({ params: { id } }))
export const readAllNotifications = () => call((api) => api.notification.readAllNotifications())
export const deleteNotification = (id: string) => call((api) => api.notification.deleteNotification({ params: { id } }))
