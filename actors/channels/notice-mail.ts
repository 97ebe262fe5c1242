/** An e-mail to one recipient, with a picture where the rule asks for it and there is one. */
import { Effect } from "effect"
import { type NotificationChannel, overADay, type Reader } from "./channel.ts"

/** A mail may carry 10 MiB; a key picture of 4K has about 1. */
const largestPicture = 5 << 20

/** RFC 3339 in, a moment as the reader's own settings have it; without settings in English and UTC. */
export const momentFor = ({ locale, timeZone }: Pick<Reader, "locale" | "timeZone">, time: string): string => {
  const text = (language: string, zone: string) =>
    new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long", timeZone: zone }).format(new Date(time))
  try {
    return text(locale ?? "en-GB", timeZone ?? "UTC")
  } catch {
    // A tag that is well-formed need not be a language, nor a name a zone.
    return text("en-GB", "UTC")
  }
}

export const email: NotificationChannel = {
  kind: "email",
  retriesMs: overADay,
  send: Effect.fnUntraced(function*(message, doors) {
    const reader = yield* doors.reader(message.targetId)
    if (reader === null) {
      return { outcome: "rejected", detail: "the user is gone, may not sign in, or has no mail address" }
    }
    const { event, popup } = message
    const found = message.attachPicture ? yield* doors.picture(message.resource) : null
    const picture = found !== null && found.content.length <= largestPicture ? found : null
    const lines = [
      popup.text,
      "",
      `Time: ${momentFor(reader, event.time)}`,
      `Event: ${event.type} (${event.severity})`,
      `Node: ${event.nodeId}`,
      `Rule: ${popup.rule}`,
      ...(message.attachPicture && picture === null ? ["", "There was no picture to attach."] : []),
      ...(popup.test ? ["", "This is a test."] : []),
    ]
    const mail = {
      to: [reader.address],
      subject: `${popup.test ? "[Test] " : ""}${popup.title}: ${popup.text}`.slice(0, 200),
      text: lines.join("\n"),
      ...(picture === null ? {} : { attachments: [picture] }),
    }
    return yield* doors.mail(mail).pipe(
      Effect.as({
        outcome: "delivered" as const,
        detail: picture === null ? "taken" : `taken, with ${picture.filename}`,
      }),
      Effect.catch((error) =>
        Effect.succeed({
          outcome: error.retryable ? "failed" as const : "rejected" as const,
          detail: `${error.reason}: ${error.detail}`,
        })
      ),
    )
  }),
}
