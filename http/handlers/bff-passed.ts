/** What another node refused, for the browser whose request was passed on to it. */
import type { PeerRefused } from "#schema/federation.ts"
import { Forbidden, NotSupported } from "#schema/problem.ts"
import { Effect } from "effect"
import { refusal } from "./http-elsewhere.ts"

const browsers = [406, 409, 415, 422, 429, 501, 503]

/** What the browser can do something about is told as that node told it; `what`: in words, what it does not offer. */
export const toldAs = (what: string) =>
  Effect.fnUntraced(function*(error: PeerRefused) {
    const { reason, theirStatus } = error
    if (theirStatus === 403) return yield* new Forbidden({ message: `The other node does not allow it: ${reason}` })
    // It knows nothing of this, or not of this stream.
    if (theirStatus === 404 || theirStatus === 405) {
      return yield* new NotSupported({ message: `The other node does not offer ${what}: ${reason}` })
    }
    return browsers.includes(theirStatus) ? yield* refusal(error) : yield* error
  })
