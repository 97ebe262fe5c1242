/**
 * The plain RTSP camera: a URL, perhaps credentials, and nothing else known about it.
 *
 * Invariants
 * 1. Credentials that stand in the URL are not used and never printed; `username` and `password` are what counts.
 */
import { Effect } from "effect"
import { Malformed } from "../codec/malformed.ts"
import { playRtsp } from "../rtsp/session.ts"
import { parseRtspUrl, type RtspUrl } from "../rtsp/url.ts"
import { type SourceDriver, SourceError } from "../source.ts"

const readUrl = (text: string): Effect.Effect<RtspUrl, SourceError> =>
  Effect.try({
    try: () => parseRtspUrl(text),
    catch: (error) =>
      new SourceError({
        reason: "unsupported",
        host: "",
        path: "",
        packet: 0,
        byte: 0,
        detail: error instanceof Malformed ? error.message : "the address cannot be read",
      }),
  })

export const rtspDriver: SourceDriver = {
  open: (options, listener) =>
    readUrl(options.url).pipe(Effect.flatMap((url) => Effect.scoped(playRtsp(url, options, listener)))),
}
