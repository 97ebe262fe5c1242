/** Random input against every operation of a whole node: the short form of `npm run prove:fuzz`, with a seed that stays. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { fuzz, operations, requestTimeoutMs } from "./harness/http-fuzz.ts"
import { wholeNode } from "./harness/whole-node.ts"

it.live("whatever is sent to any operation, it is answered, and never by a 5xx of ours", () =>
  Effect.gen(function*() {
    const faults: Array<string> = []
    const node = yield* wholeNode({ NIGHTJAR_REQUEST_TIMEOUT_MS: String(requestTimeoutMs) })
    const { operations: asked, tally } = yield* fuzz(node, { seed: 1, runs: 3, fault: (line) => faults.push(line) })
    assert.deepStrictEqual(faults, [])
    assert.strictEqual(asked, operations().length)
    // It went behind the door: things were made, found, refused for what they say.
    for (const status of [200, 201, 204, 400, 404, 409]) {
      assert.isAbove(tally.get(`valid ${status}`) ?? 0, 0, `${status}`)
    }
  }), 180_000)
