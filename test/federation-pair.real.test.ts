/** Two nodes with databases of their own: paired by a person's comparison, asked by each other, unpaired. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { pairNodes, type PeerNode, peerNode, until } from "./harness/two-peers.ts"

const nodes = "/federation/api/v1/federation/nodes"
const requests = "/auth/api/v1/federation/requests"

const incoming = async (node: PeerNode) =>
  (await node.ask("GET", requests)).body["items"] as ReadonlyArray<Record<string, string>>
const listed = async (node: PeerNode) =>
  (await node.ask("GET", nodes)).body["items"] as ReadonlyArray<Record<string, unknown>>
const audited = async (node: PeerNode, action: string) =>
  (await node.ask("GET", `/auth/api/v1/audit?action=${action}&limit=100`))
    .body["items"] as ReadonlyArray<
      Record<string, unknown>
    >

it.live(
  "two nodes are paired by the code, denied, paired by the fingerprint, and unpaired",
  () =>
    Effect.gen(function*() {
      const [a, b] = yield* Effect.all([
        peerNode({ NIGHTJAR_NODE_NAME: "alpha" }),
        peerNode({ NIGHTJAR_NODE_NAME: "beta" }),
      ], { concurrency: 2 })
      yield* Effect.promise(async () => {
        assert.deepInclude((await listed(a))[0], { self: true, name: "alpha", relation: "self", address: a.base })

        // Denied.
        const ask = () => a.ask("POST", `${nodes}/pair-by-uuid`, { nodeUuid: b.nodeId, address: b.base })
        const first = await ask()
        assert.strictEqual(first.status, 202, JSON.stringify(first.body))
        const [seen] = await incoming(b)
        assert.strictEqual(seen!["comparisonCode"], first.body["comparisonCode"], "both sides show the same code")
        assert.strictEqual(seen!["fingerprint"], a.fingerprint)
        assert.strictEqual((await b.ask("POST", `${requests}/${seen!["id"]}/deny`)).status, 200)
        await until("the asking side hears of the refusal", async () => {
          const all = (await a.ask("GET", "/federation/api/v1/federation/pairings")).body["items"] as Array<
            Record<string, string>
          >
          return all.some(({ requestId, state }) => requestId === seen!["id"] && state === "denied") || null
        })

        // A wrong fingerprint is told at once; a wrong code is refused.
        const wrong = { nodeUuid: b.nodeId, address: b.base, fingerprint: a.fingerprint }
        assert.strictEqual((await a.ask("POST", `${nodes}/pair-by-uuid`, wrong)).status, 409)
        const elsewhere = { nodeUuid: a.nodeId.replace(/.$/, (last) => last === "0" ? "1" : "0"), address: b.base }
        assert.strictEqual((await a.ask("POST", `${nodes}/pair-by-uuid`, elsewhere)).status, 502)

        // By the code on both sides.
        const second = await ask()
        const id = second.body["requestId"] as string
        const code = second.body["comparisonCode"] as string
        const other = code === "000000" ? "000001" : "000000"
        assert.strictEqual((await b.ask("POST", `${requests}/${id}/confirm`, { comparisonCode: other })).status, 409)
        assert.strictEqual((await b.ask("POST", `${requests}/${id}/confirm`, { comparisonCode: code })).status, 200)
        assert.strictEqual((await listed(b)).length, 1, "nobody is a peer before the asking side has compared")
        const own = `/federation/api/v1/federation/pairings/${id}/confirm`
        assert.strictEqual((await a.ask("POST", own, { comparisonCode: other })).status, 409)
        assert.strictEqual((await a.ask("POST", own, { comparisonCode: code })).status, 200)
        for (const [node, peer] of [[a, b], [b, a]] as const) {
          await until("each greets the other", async () => {
            const found = (await listed(node)).find(({ nodeId }) => nodeId === peer.nodeId)
            return found?.["state"] === "online" || null
          })
        }
        const peer = (await listed(b)).find(({ nodeId }) => nodeId === a.nodeId)!
        assert.deepInclude(peer, { name: "alpha", relation: "peer", address: a.base, mediaReadEnforcement: true })
        assert.isBelow(Math.abs(peer["clockOffsetMs"] as number), 5_000)

        // An end on one side is one on both.
        assert.strictEqual((await b.ask("DELETE", `/auth/api/v1/federation/peers/${a.nodeId}`)).status, 204)
        assert.strictEqual((await listed(b)).length, 1)
        await until("the other side hears of it", async () => (await listed(a)).length === 1 || null)
        assert.strictEqual((await b.ask("DELETE", `${nodes}/${a.nodeId}/pair`)).status, 404)
        const ended = await audited(b, "authFederation.revokePeer")
        assert.isAbove(ended.length, 0)
        const left = await audited(a, "authFederation.leavePeer")
        assert.deepInclude(left[0]!["actor"], { kind: "peer", id: b.nodeId, name: "beta" })
      })
      yield* pairNodes(b, a)
      yield* Effect.promise(async () => {
        assert.deepInclude((await listed(a)).find(({ nodeId }) => nodeId === b.nodeId)!, {
          relation: "peer",
          name: "beta",
        })
        const [row] = await Effect.runPromise(
          a.sql<{ readonly sealed: string }>`SELECT sealed_token AS sealed FROM auth_peer`,
        )
        assert.match(row!.sealed, /^nj1\./)
        const roles = await a.ask("PUT", `/auth/api/v1/federation/peers/${b.nodeId}/media-read-enforcement`, {
          enabled: false,
          roles: ["operator"],
        })
        assert.deepInclude(roles.body, { enabled: false, roles: ["operator"] })
      })
    }),
  180_000,
)
