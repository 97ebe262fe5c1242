/**
 * A webhook by Standard Webhooks 1.0: `webhook-id`, `webhook-timestamp`, `webhook-signature`, and a body of
 * `{ type, timestamp, data: { event, popup } }` where `event` is the CloudEvents envelope.
 *
 * Invariants
 * 1. `webhook-id` is the delivery's and the same for each attempt; the timestamp, and so the signature, is the attempt's.
 * 2. 2xx is delivered, 410 means never again, everything else is tried again. Redirects are not followed.
 */
import { Clock, Effect, Redacted } from "effect"
import { Webhook } from "standardwebhooks"
import { type NotificationChannel, overDays, type Sent } from "./channel.ts"
import { type OutboundAnswer, post } from "./outbound.ts"

/** What is read of an answer: enough for a line in the log. */
const maxAnswerBytes = 4_096
const longestPause = 86_400_000

/** `Retry-After` in seconds (RFC 9110, section 10.2.3); a date is not honoured. */
export const pauseOf = ({ headers, status }: OutboundAnswer): number | undefined => {
  const seconds = status === 429 || status === 503 ? Number(headers["retry-after"] ?? Number.NaN) : Number.NaN
  return Number.isInteger(seconds) && seconds > 0 ? Math.min(seconds * 1000, longestPause) : undefined
}

/** Status and the beginning of the body, as one line. */
export const told = ({ body, status }: OutboundAnswer): string =>
  `status ${status} ${body.subarray(0, 200).toString("utf8").replace(/[\p{Cc}\s]+/gu, " ")}`.trim()

const judged = (answer: OutboundAnswer): Sent => {
  const detail = told(answer)
  if (answer.status >= 200 && answer.status < 300) return { outcome: "delivered", detail }
  if (answer.status === 410) return { outcome: "gone", detail }
  const retryAfterMs = pauseOf(answer)
  return { outcome: "failed", detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}

export const webhook: NotificationChannel = {
  kind: "webhook",
  retriesMs: overDays,
  send: Effect.fnUntraced(function*({ deliveryId, event, popup, targetId }, doors) {
    const target = yield* doors.webhook(targetId)
    if (target === null) return { outcome: "rejected", detail: "the webhook is not there any more" }
    if (target.disabled) return { outcome: "rejected", detail: "the webhook is switched off: it answered 410" }
    const body = JSON.stringify({ type: event.type, timestamp: event.time, data: { event, popup } })
    const id = `msg_${deliveryId}`
    const nowMs = yield* Clock.currentTimeMillis
    const signature = new Webhook(Redacted.value(target.secret)).sign(id, new Date(nowMs), body)
    return yield* post({
      url: new URL(target.url),
      headers: {
        "content-type": "application/json",
        "webhook-id": id,
        "webhook-timestamp": String(Math.floor(nowMs / 1000)),
        "webhook-signature": signature,
      },
      body,
      timeoutMs: doors.timeoutMs,
      maxAnswerBytes,
    }).pipe(
      Effect.map(judged),
      Effect.catch((error) =>
        Effect.succeed<Sent>({
          outcome: error.reason === "forbidden" ? "rejected" : "failed",
          detail: `${error.reason}: ${error.detail}`.slice(0, 300),
        })
      ),
    )
  }),
}
