/** Every notification channel: a new kind does not compile until it stands here. */
import type { ChannelKind } from "#schema/notification-rules.ts"
import type { NotificationChannel } from "./channel.ts"
import { inApp } from "./in-app.ts"
import { email } from "./notice-mail.ts"
import { webPush } from "./web-push.ts"
import { webhook } from "./webhook.ts"

export const channels = { inApp, email, webhook, webPush } satisfies Record<ChannelKind, NotificationChannel>
