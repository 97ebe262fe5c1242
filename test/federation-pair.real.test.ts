/** Two nodes with databases of their own: paired by a person's comparison, asked by each other, unpaired. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { request } from "node:http"
import { pairedCaller, type PeerCaller, peerKey } from "./harness/peer-caller.ts"
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

const cameras = "/camera/api/v1/cameras"

/** A third node, paired, whose role reaches no camera. */
const narrowed = async (node: PeerNode): Promise<PeerCaller> => {
  const gamma = await pairedCaller(node, "gamma", (id) => node.ask("POST", `${requests}/${id}/confirm`, {}))
  await node.ask("POST", "/auth/api/v1/roles", { name: "hall", description: "", permissions: ["camera:read"] })
  const group = await node.ask("POST", "/permission/api/v1/resource-groups", { name: "hall" })
  await node.ask("PUT", "/permission/api/v1/roles/hall/resource-groups", { groupIds: [group.body["id"]] })
  await node.ask("PUT", `/auth/api/v1/federation/peers/${gamma.nodeId}/media-read-enforcement`, {
    enabled: true,
    roles: ["hall"],
  })
  return gamma
}

/** Refusals of the audit log about that node, once there is one more with this word in its reason; newest first. */
const refused = (node: PeerNode, nodeId: string, word: string) =>
  until(`the refusal (${word}) is in the audit log`, async () => {
    const { body } = await node.ask("GET", "/auth/api/v1/audit?outcome=refused&limit=100")
    const found = (body["items"] as ReadonlyArray<Record<string, Record<string, unknown>>>).find(({ actor, detail }) =>
      (actor!["id"] === nodeId || detail!["claimedNode"] === nodeId) && String(detail!["reason"]).includes(word)
    )
    return found ?? null
  })

/** A request that streams for as long as it is let; resolves with its status. */
const uploading = async (
  node: PeerNode,
  peer: PeerCaller,
  path: string,
): Promise<{ readonly status: Promise<number> }> => {
  // The first request tells the nonce.
  await peer.fetch("GET", "/auth/api/v1/federation/peer")
  const headers = await peer.headers("POST", path)
  const { hostname, port } = new URL(node.base)
  const open = request({
    hostname,
    port,
    path,
    method: "POST",
    headers: { ...headers, "content-type": "multipart/form-data; boundary=x", "transfer-encoding": "chunked" },
  })
  const status = new Promise<number>((resolve, reject) => {
    open.on("response", (response) => {
      response.resume()
      resolve(response.statusCode ?? 0)
      open.destroy()
    })
    open.on("error", reject)
  })
  open.write("--x\r\ncontent-disposition: form-data; name=\"segment\"\r\n\r\n")
  // Not awaited with this: it is what is open.
  return { status }
}

/** What a node may not, whoever it is: refused, and audited by name. */
const refusals = async (node: PeerNode): Promise<void> => {
  const camera = await node.ask("POST", cameras, {
    name: "vault",
    driver: "rtsp",
    streams: [{ role: "main", sourceUrl: "rtsp://127.0.0.1:1/vault" }],
  })
  const gamma = await narrowed(node)
  const ask = (path: string) => gamma.fetch("GET", path)
  const list = await ask(cameras)
  assert.strictEqual(list.status, 200)
  assert.deepStrictEqual((await list.json() as { items: unknown }).items, [])

  // Outside of its groups: as if it did not exist, but on record.
  for (
    const path of [`${cameras}/${camera.body["id"] as string}`, `${cameras}/${camera.body["id"] as string}/channels`]
  ) {
    assert.strictEqual((await ask(path)).status, 404, path)
  }
  const outside = await refused(node, gamma.nodeId, "outside")
  assert.deepInclude(outside["actor"], { kind: "peer", id: gamma.nodeId, name: "gamma" })
  assert.strictEqual(outside["resource"]!["id"], camera.body["id"])
  assert.strictEqual((await ask("/auth/api/v1/users")).status, 403)

  // Its token in the hands of somebody with another key.
  assert.strictEqual((await gamma.fetch("GET", cameras, {}, peerKey())).status, 401)
  const stolen = await refused(node, gamma.nodeId, "another key")
  assert.deepInclude(stolen["detail"], { claimedNode: gamma.nodeId, claimedName: "gamma" })
  assert.deepInclude(stolen["actor"], { kind: "anonymous" })

  // What it sent, sent again.
  const headers = await gamma.headers("GET", cameras)
  const once = () => fetch(`${node.base}${cameras}`, { headers })
  assert.deepStrictEqual([(await once()).status, (await once()).status], [200, 401])
  await refused(node, gamma.nodeId, "used before")

  // Revoked in the middle of a request.
  const upload = await uploading(node, gamma, "/federation/api/v1/federation/failover/recordback/segments")
  const early = await Promise.race([upload.status, new Promise((resolve) => setTimeout(() => resolve("open"), 500))])
  assert.strictEqual(early, "open")
  assert.strictEqual((await node.ask("DELETE", `/auth/api/v1/federation/peers/${gamma.nodeId}`)).status, 204)
  assert.strictEqual(await upload.status, 401)
  assert.strictEqual((await ask(cameras)).status, 401)
  assert.deepInclude((await refused(node, gamma.nodeId, "not paired"))["detail"], { claimedNode: gamma.nodeId })
}

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
        await until(
          "the end is in the audit log",
          async () => (await audited(b, "authFederation.revokePeer")).length > 0 || null,
        )
        // The log's queue is emptied a moment later.
        const left = await until("its end is in the audit log", async () => {
          const found = await audited(a, "authFederation.leavePeer")
          return found.length > 0 ? found : null
        })
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
        // Where it says it is, nobody is any more; another address was given, and one that must not be dialled is refused.
        const given = (addresses: ReadonlyArray<string>) =>
          a.ask("PUT", `${nodes}/${b.nodeId}/addresses`, { addresses })
        assert.strictEqual((await given(["http://192.0.2.7:8080"])).status, 422)
        assert.deepInclude((await given(["http://127.0.0.1:1", b.base])).body, {
          addresses: ["http://127.0.0.1:1", b.base],
        })
        await Effect.runPromise(a.sql`UPDATE auth_peer SET address = 'http://127.0.0.1:1' WHERE peer_id = ${b.nodeId}`)
        // Any change of the peers is read with it.
        assert.strictEqual((await given([b.base])).body["address"], "http://127.0.0.1:1")
        const remapped = await a.ask("POST", `/federation/api/v1/federation/nodes/${b.nodeId}/remap`)
        assert.strictEqual(remapped.status, 200, JSON.stringify(remapped.body))
        assert.strictEqual((await given([])).status, 200)
        assert.strictEqual((await a.ask("POST", `/federation/api/v1/federation/nodes/${b.nodeId}/remap`)).status, 503)
        assert.strictEqual((await given([b.base])).status, 200)
        await refusals(a)

        // A replay of before a restart: it has ended, which is not the same as having no footage.
        const before = `/federation/api/v1/federation-replay/hls/${a.nodeId}/n00.${"x".repeat(32)}/master.m3u8`
        const gone = await a.ask("GET", before)
        assert.strictEqual(gone.status, 410)
        assert.strictEqual(gone.body["code"], "replay_session_ended")
      })
    }),
  480_000,
)
