/**
 * The door by which a demo's dashboards kill a node and bring it back: a small HTTP server of the program that runs the nodes.
 *
 * Invariants
 * 1. It listens on loopback and answers only to the token of this start, which the nodes alone are told.
 * 2. It answers before it kills: the node that asks may be the one.
 * 3. It kills and starts nodes of this demo, by their ids, and nothing else.
 */
import type { NodeId } from "#schema/common.ts"
import type { DemoNode } from "#schema/federation-demo.ts"
import { Duration, Effect, type Scope } from "effect"
import { randomBytes, timingSafeEqual } from "node:crypto"
import { createServer, type Server } from "node:http"

/** Long enough for the asking node to send its own answer. */
const beforeKill = Duration.millis(300)

export interface DemoDoor {
  /** What nodes are told: `NIGHTJAR_DEMO_DOOR`. */
  readonly address: string
  /** From now on it knows these. */
  readonly open: (nodes: ReadonlyArray<GuardedNode>) => void
}

export interface GuardedNode {
  readonly told: () => DemoNode
  readonly kill: () => void
  readonly start: () => void
}

const equal = (given: string, token: string): boolean => {
  const [one, other] = [Buffer.from(given), Buffer.from(token)]
  return one.length === other.length && timingSafeEqual(one, other)
}

interface Said {
  readonly status: number
  readonly text: string
}

const answer = (nodes: ReadonlyArray<GuardedNode>, deed: string, nodeId: string): Said => {
  if (deed === "nodes") return { status: 200, text: JSON.stringify({ items: nodes.map(({ told }) => told()) }) }
  const node = nodes.find(({ told }) => told().nodeId === nodeId as NodeId)
  if (node === undefined || (deed !== "kill" && deed !== "start")) return { status: 404, text: "" }
  if (node.told().running !== (deed === "kill")) return { status: 409, text: "" }
  if (deed === "kill") Effect.runFork(Effect.delay(Effect.sync(node.kill), beforeKill))
  else node.start()
  return { status: 200, text: "" }
}

const listen = (server: Server): Promise<number> =>
  new Promise((resolve, reject) => {
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      resolve(typeof address === "object" && address !== null ? address.port : 0)
    })
  })

/** Until the scope closes. */
export const demoDoor: Effect.Effect<DemoDoor, never, Scope.Scope> = Effect.gen(function*() {
  const token = randomBytes(32).toString("base64url")
  let nodes: ReadonlyArray<GuardedNode> = []
  const server = createServer((request, response) => {
    request.resume()
    const [, given = "", deed = "", nodeId = ""] = (request.url ?? "").split("/")
    const said = request.method === "POST" && equal(given, token) ?
      answer(nodes, deed, nodeId) :
      { status: 404, text: "" }
    response.writeHead(said.status, { "content-type": "application/json" }).end(said.text)
  })
  const port = yield* Effect.acquireRelease(Effect.promise(() => listen(server)), () =>
    Effect.sync(() => {
      server.close()
      server.closeAllConnections()
    }))
  return {
    address: `http://127.0.0.1:${port}/${token}`,
    open: (some) => {
      nodes = some
    },
  }
})
