/**
 * Two whole nodes, each with a PostgreSQL of its own, paired as their administrators would pair them.
 *
 * Invariants
 * 1. Everything is asked by HTTP, as a person's browser would ask it.
 */
import { Effect } from "effect"
import { adminPassword, type WholeNode, wholeNode } from "./whole-node.ts"

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Readonly<Record<string, unknown>>
}

/** A node and its administrator. */
export interface PeerNode extends WholeNode {
  readonly nodeId: string
  readonly fingerprint: string
  /** Asks as the administrator. */
  readonly ask: (method: string, path: string, body?: unknown) => Promise<Answer>
  /** Posts an SDP offer as the administrator. */
  readonly offer: (path: string, sdp: string) => Promise<{ readonly status: number; readonly text: string }>
}

const asking = (base: string, token: string | null) => async (method: string, path: string, body?: unknown) => {
  const response = await fetch(`${base}${path}`, {
    method,
    headers: {
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...(token === null ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(60_000),
  })
  const text = await response.text()
  const read: unknown = text === "" ? {} : JSON.parse(text)
  return { status: response.status, headers: response.headers, body: read as Answer["body"] }
}

/** A whole node with its administrator signed in. */
export const peerNode = Effect.fnUntraced(function*(settings: Readonly<Record<string, string>> = {}) {
  const node = yield* wholeNode(settings)
  return yield* Effect.promise(async (): Promise<PeerNode> => {
    const credentials = { username: "admin", password: adminPassword }
    const { body } = await asking(node.base, null)("POST", "/auth/api/v1/auth/login", credentials)
    const ask = asking(node.base, body["accessToken"] as string)
    const offer: PeerNode["offer"] = async (path, sdp) => {
      const headers = { "content-type": "application/sdp", authorization: `Bearer ${body["accessToken"] as string}` }
      const answer = await fetch(`${node.base}${path}`, { method: "POST", headers, body: sdp })
      return { status: answer.status, text: await answer.text() }
    }
    const list = await ask("GET", "/federation/api/v1/federation/nodes")
    const [self] = list.body["items"] as ReadonlyArray<{ nodeId: string; fingerprint: string }>
    return { ...node, nodeId: self!.nodeId, fingerprint: self!.fingerprint, ask, offer }
  })
})

/** Waits until it answers something else than null: three minutes at most, for on a busy machine two nodes take one to come up. */
export const until = async <A>(what: string, look: () => Promise<A | null>): Promise<A> => {
  const end = performance.now() + 180_000
  while (performance.now() < end) {
    const found = await look()
    if (found !== null) return found
    await new Promise((resume) => setTimeout(resume, 200))
  }
  throw new Error(`It did not come about within three minutes: ${what}`)
}

const must = async (answer: Promise<Answer>, status: number): Promise<Answer> => {
  const told = await answer
  if (told.status !== status) throw new Error(`${told.status} instead of ${status}: ${JSON.stringify(told.body)}`)
  return told
}

export interface PairOptions {
  /** The asked node's administrator lets the asking one guard it; true if left out. */
  readonly askedGrants?: boolean
  /** The asking node's administrator lets the asked one guard it; true if left out. */
  readonly askingGrants?: boolean
}

/** `asking` asks `asked`, by its fingerprint; its administrator compares the code and confirms. Done when both list each other. */
export const pairNodes = (asking: PeerNode, asked: PeerNode, options: PairOptions = {}): Effect.Effect<void> =>
  Effect.promise(async () => {
    const outgoing = await must(
      asking.ask("POST", "/federation/api/v1/federation/nodes/pair-by-uuid", {
        nodeUuid: asked.nodeId,
        address: asked.base,
        fingerprint: asked.fingerprint,
        grantGuardian: options.askingGrants ?? true,
      }),
      202,
    )
    await must(
      asked.ask("POST", `/auth/api/v1/federation/requests/${String(outgoing.body["requestId"])}/confirm`, {
        comparisonCode: outgoing.body["comparisonCode"],
        grantGuardian: options.askedGrants ?? true,
      }),
      200,
    )
    for (const [node, other] of [[asking, asked], [asked, asking]] as const) {
      await until("the nodes list each other as online peers", async () => {
        const found = await node.ask("GET", `/federation/api/v1/federation/nodes/${other.nodeId}`)
        return found.status === 200 && found.body["state"] === "online" ? found : null
      })
    }
  })

/** Two nodes with databases of their own, paired: `home` was asked by `guard`, and each may guard the other. */
export const twoPeers = Effect.fnUntraced(function*(options: {
  readonly home?: Readonly<Record<string, string>>
  readonly guard?: Readonly<Record<string, string>>
  readonly pairing?: PairOptions
} = {}) {
  const [home, guard] = yield* Effect.all([
    peerNode({ NIGHTJAR_NODE_NAME: "home", ...options.home }),
    peerNode({ NIGHTJAR_NODE_NAME: "guard", ...options.guard }),
  ], { concurrency: 2 })
  yield* pairNodes(guard, home, options.pairing)
  return { home, guard }
})
