/** A popup in the dashboards of the recipients: an event of its own, which the live channel brings to them alone. */
import { UserId } from "#schema/common.ts"
import { Effect } from "effect"
import { type NotificationChannel, overADay } from "./channel.ts"

export const inApp: NotificationChannel = {
  kind: "inApp",
  retriesMs: overADay,
  send: ({ audience, deliveryId, event, popup, resource }, doors) =>
    Effect.as(
      doors.publish({
        type: "popup.raised",
        // Told twice it is kept once.
        id: `popup:${deliveryId}`,
        subject: event.subject,
        severity: event.severity,
        resource,
        audience: audience.map((id) => UserId.make(id)),
        data: {
          ruleId: popup.ruleId,
          rule: popup.rule,
          sound: popup.sound,
          colour: popup.colour,
          title: popup.title,
          text: popup.text,
          eventId: event.id,
          eventType: event.type,
          test: popup.test,
        },
      }),
      { outcome: "delivered", detail: `told to ${audience.length}` },
    ),
}
