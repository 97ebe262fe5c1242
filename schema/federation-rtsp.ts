/** Words of players' connections that one member of a cluster carries to another. */
import { Schema } from "effect"

/** Of a line between two doors: 192 bits from the system's random source. */
export const RtspLineId = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{32}$/)).pipe(Schema.brand("RtspLineId"))
export type RtspLineId = typeof RtspLineId.Type

/** Tells it with the head of the answer. */
export const rtspLineHeader = "nightjar-rtsp-line"
export const rtspLinePath = "/federation/api/v1/federation/rtsp-lines"
/** Of one message towards the door. */
export const mostLineBytes = 64 * 1024

/** It has ended, or is another node's. */
export class RtspLineNotFound
  extends Schema.TaggedError<RtspLineNotFound>()("RtspLineNotFound", {}, { httpApiStatus: 404 })
{
  override get message(): string {
    return "There is no such line; connect anew."
  }
}
