/** Live streams over HTTP: what is answered where one cannot be had. */
import { Schema } from "effect"

/** Unguessable: whoever knows it may watch. Before it stands the slot of the node that has it, where that is known. */
export const LiveSessionId = Schema.String.check(Schema.isPattern(/^(?:n\d\d\.)?[A-Za-z0-9_-]{24}$/)).pipe(
  Schema.brand("LiveSessionId"),
)

/** Never existed, or has ended: with the login session, with the permission, or because nobody asked for a while. */
export class LiveSessionNotFound
  extends Schema.TaggedError<LiveSessionNotFound>()("LiveSessionNotFound", {}, { httpApiStatus: 404 })
{
  override get message(): string {
    return "There is no such live session (any more); open the stream anew."
  }
}

/** What was asked for has left the memory, or was never there. */
export class LiveFileNotFound
  extends Schema.TaggedError<LiveFileNotFound>()("LiveFileNotFound", { filename: Schema.String }, {
    httpApiStatus: 404,
  })
{
  override get message(): string {
    return `This live session has no file ${this.filename} (any more).`
  }
}
