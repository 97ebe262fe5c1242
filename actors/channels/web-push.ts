/**
 * Web Push: a message encrypted for the browser (RFC 8291), signed for the push service (VAPID, RFC 8292), kept there for
 * {@link ttlSeconds} while the browser is away (RFC 8030).
 *
 * Invariants
 * 1. 404 and 410 mean that the subscription is gone (RFC 8030, section 7.3); it is removed.
 * 2. The message is `{ popup, event: { id, type, time, subject, severity } }`, below {@link largestBody} bytes: what is longer is
 *    cut, as push services take 4096 at most.
 */
import { Effect, Redacted } from "effect"
import webpush from "web-push"
import { type ChannelMessage, type NotificationChannel, overADay, type PushTarget, type Sent } from "./channel.ts"
import { type OutboundAnswer, post } from "./outbound.ts"
import { pauseOf, told } from "./webhook.ts"

/** A browser that was closed for longer shows the notifications of the dashboard anyway. */
const ttlSeconds = 86_400
const largestBody = 2_800
const maxAnswerBytes = 4_096

const bodyOf = ({ event, popup }: ChannelMessage): string => {
  const { id, severity, subject, time, type } = event
  const message = (text: string) =>
    JSON.stringify({ popup: { ...popup, text }, event: { id, type, time, subject, severity } })
  const whole = message(popup.text)
  return Buffer.byteLength(whole) <= largestBody ? whole : message(popup.text.slice(0, 200))
}

const judged = (answer: OutboundAnswer): Sent => {
  const detail = told(answer)
  if (answer.status >= 200 && answer.status < 300) return { outcome: "delivered", detail }
  if (answer.status === 404 || answer.status === 410) return { outcome: "gone", detail }
  // 400, 403 and 413 stay what they are; the service's own trouble passes.
  if (answer.status < 500 && answer.status !== 429) return { outcome: "rejected", detail }
  const retryAfterMs = pauseOf(answer)
  return { outcome: "failed", detail, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}

const prepared = (message: ChannelMessage, { endpoint, keys, vapid }: PushTarget) =>
  Effect.try({
    try: () =>
      webpush.generateRequestDetails({ endpoint, keys }, bodyOf(message), {
        TTL: ttlSeconds,
        urgency: message.event.severity === "critical" ? "high" : "normal",
        contentEncoding: "aes128gcm",
        vapidDetails: {
          subject: vapid.subject,
          publicKey: vapid.publicKey,
          privateKey: Redacted.value(vapid.privateKey),
        },
      }),
    catch: () => "the keys of the subscription cannot be used",
  })

export const webPush: NotificationChannel = {
  kind: "webPush",
  retriesMs: overADay,
  send: Effect.fnUntraced(function*(message, doors) {
    const target = yield* doors.subscription(message.targetId)
    if (target === null) return { outcome: "rejected", detail: "the subscription is not there any more" }
    return yield* prepared(message, target).pipe(
      Effect.flatMap(({ body, headers }) => {
        const text = Object.entries(headers as Record<string, string | number>).map((
          [name, value],
        ) => [name, String(value)])
        return post({
          url: new URL(target.endpoint),
          headers: Object.fromEntries(text) as Record<string, string>,
          body: body ?? "",
          timeoutMs: doors.timeoutMs,
          maxAnswerBytes,
          network: doors.pushNetwork,
        })
      }),
      Effect.map(judged),
      Effect.catch((error) =>
        Effect.succeed<Sent>(
          typeof error === "string" ?
            { outcome: "rejected", detail: error } :
            {
              outcome: error.reason === "forbidden" ? "rejected" : "failed",
              detail: `${error.reason}: ${error.detail}`.slice(0, 300),
            },
        )
      ),
    )
  }),
}
