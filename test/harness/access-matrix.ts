/**
 * Who gets in where: every operation of the Api asked by every kind of caller of a whole node, with what was observed.
 *
 * A verdict is
 *
 *     in      let in: whatever was answered, it was not about who asked
 *     401     nobody is signed in
 *     403     signed in, but not allowed to
 *     hidden  told that there is no such thing, though there is
 *     key     nobody is asked who he is, as the path holds the credential; the made-up one of this test opens nothing
 *     -       does not apply: the operation names nothing that could lie outside of a group
 *
 * Invariants
 * 1. No answer to somebody who does not reach a thing may show it: ids of what lies outside are looked for in whatever he was
 *    answered with 2xx, and what is hidden from him is answered word for word as what does not exist.
 */
import { builtInRoles } from "#schema/permission.ts"
import { Effect } from "effect"
import { createHash, randomUUID } from "node:crypto"
import {
  ask,
  type Caller,
  type Column,
  columns,
  concerns,
  made,
  questions,
  rank,
  type Row,
  type Things,
  type Told,
  type Verdict,
  verdictOf,
} from "./access-questions.ts"
import { pairedCaller } from "./peer-caller.ts"
import { adminPassword, type WholeNode } from "./whole-node.ts"

const must = async (base: string, method: string, path: string, token: string, body?: unknown) => {
  const response = await fetch(`${base}${path}`, {
    method,
    headers: { "content-type": "application/json", ...(token === "" ? {} : { authorization: `Bearer ${token}` }) },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(40_000),
  })
  const text = await response.text()
  if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`)
  return (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>
}

const signIn = async (base: string, username: string, password: string) =>
  (await must(base, "POST", "/auth/api/v1/auth/login", "", { username, password }))["accessToken"] as string

interface Item {
  readonly id: string
}

/** A camera that cannot be reached, with a recording, and the notification about its absence. */
const makeThings = async (base: string, admin: string, name: string) => {
  const source = "rtsp://127.0.0.1:1/" + name
  const made = await must(base, "POST", "/camera/api/v1/cameras", admin, {
    name,
    driver: "rtsp",
    streams: [{ role: "main", sourceUrl: source }],
  })
  const [channel] = made["channels"] as ReadonlyArray<Item & { readonly streams: ReadonlyArray<Item> }>
  const recording = await must(base, "POST", "/record/api/v1/recordings", admin, {
    channelId: channel!.id,
    mode: "continuous",
    enabled: true,
    retentionDays: 1,
  })
  return {
    camera: made["id"] as string,
    channel: channel!.id,
    stream: channel!.streams[0]!.id,
    recording: recording["id"] as string,
    recordingToken: recording["recordingToken"] as string,
  }
}

/** The id of a notification about the camera, once there is one. */
const notificationOf = async (base: string, admin: string, camera: string): Promise<string> => {
  while (true) {
    const { items } = await must(base, "GET", "/notification/api/v1/notifications?limit=500", admin)
    const found = (items as ReadonlyArray<Item>).find((item) => JSON.stringify(item).includes(camera))
    if (found !== undefined) return found.id
    await new Promise((resolve) => setTimeout(resolve, 200))
  }
}

/** A session over footage that is not there, as its row: nothing else makes one without a camera that delivers. */
const replaySession = (node: WholeNode, { recording, recordingToken }: { recording: string; recordingToken: string }) =>
  Effect.gen(function*() {
    const id = randomUUID().replaceAll("-", "")
    const digest = createHash("sha256").update(id).digest("base64url")
    yield* node.sql`
      INSERT INTO replay_session (digest, slot, node_id, recording_id, recording_token, user_id, login_session_id, start_at, speed,
        created_at, expires_at)
      VALUES (${digest}, 'test', ${made.id}, ${recording}, ${recordingToken}, ${made.id}, ${made.id}, now(), 1, now(),
        now() + interval '1 hour')`
    return id
  })

const password = "a long and dull password"

/** A node with two cameras, and everybody who asks. */
const scene = Effect.fnUntraced(function*(node: WholeNode) {
  const { base } = node
  const { callers, rows } = yield* Effect.promise(async () => {
    const admin = await signIn(base, "admin", adminPassword)
    const roles = ["viewer", "operator"] as const
    for (const name of roles) {
      await must(base, "POST", "/auth/api/v1/roles", admin, {
        name: `hall-${name}`,
        description: `What a role ${name} may, in the hall`,
        permissions: builtInRoles[name].permissions,
      })
    }
    const user = async (name: Column, username: string, held: ReadonlyArray<string>): Promise<Caller> => {
      await must(base, "POST", "/auth/api/v1/users", admin, {
        username,
        password,
        roles: held,
        mustChangePassword: false,
      })
      return { name, username, token: await signIn(base, username, password) }
    }
    // Before anything happens that they might be told of.
    await user("nobody", "stranger", [])
    const viewer = await user("viewer", "vera", ["hall-viewer"])
    const hallOperator = await user("hallOperator", "hal", ["hall-operator"])
    const { items } = await must(base, "GET", "/federation/api/v1/federation/nodes", admin)
    const [self] = items as ReadonlyArray<{ readonly nodeId: string }>
    const peer = await pairedCaller(
      { base, nodeId: self!.nodeId },
      "gamma",
      (id) => must(base, "POST", `/auth/api/v1/federation/requests/${id}/confirm`, admin, {}),
    )
    await must(base, "PUT", `/auth/api/v1/federation/peers/${peer.nodeId}/media-read-enforcement`, admin, {
      enabled: true,
      roles: ["hall-operator"],
    })
    const callers: ReadonlyArray<Caller> = [
      { name: "nobody", username: "nobody", token: null },
      await user("noRole", "nora", []),
      viewer,
      { ...viewer, name: "viewerOutside" },
      hallOperator,
      { ...hallOperator, name: "hallOperatorOutside" },
      await user("operator", "olga", ["operator"]),
      { name: "admin", username: "admin", token: admin },
      { name: "peer", username: "peer", token: null, peer },
      { name: "peerOutside", username: "peer", token: null, peer },
    ]
    const inside = await makeThings(base, admin, "inside")
    const outside = await makeThings(base, admin, "outside")
    const group = await must(base, "POST", "/permission/api/v1/resource-groups", admin, { name: "hall" })
    await must(base, "POST", `/permission/api/v1/resource-groups/${group["id"] as string}/resources`, admin, {
      resources: [{ kind: "camera", id: inside.camera }],
    })
    for (const name of roles) {
      const groupIds = [group["id"]]
      await must(base, "PUT", `/permission/api/v1/roles/hall-${name}/resource-groups`, admin, { groupIds })
    }
    const rows = await Promise.all([inside, outside].map(async (things) => ({
      ...things,
      notification: await notificationOf(base, admin, things.camera),
    })))
    return { callers, rows }
  })
  const [inside, outside] = yield* Effect.forEach(
    rows,
    (row) => Effect.map(replaySession(node, row), (replaySession): Things => ({ ...row, replaySession })),
  )
  return { callers, inside: inside!, outside: outside! }
})

/** Things that do not exist, by ids that might. */
const nothing: Things = {
  camera: "01900000-0000-7000-8000-00000000000a",
  channel: "01900000-0000-7000-8000-00000000000b",
  stream: "01900000-0000-7000-8000-00000000000c",
  recording: "01900000-0000-7000-8000-00000000000d",
  recordingToken: "01900000-0000-7000-8000-00000000000e",
  replaySession: made.hls,
  notification: "01900000-0000-7000-8000-00000000000f",
}

/** An answer without what differs between two questions. */
const neutral = ({ body, status }: Told, things: Things): string => {
  const text = Object.values(things as unknown as Record<string, string>).reduce(
    (rest, id) => rest.replaceAll(id, "?"),
    body,
  )
  return `${status} ${text.replace(/"traceId":"\w+"/, "")}`
}

/** A row a question, under the key `operation<TAB>about`, and whatever is wrong whatever the table says. */
export const observe = Effect.fnUntraced(function*(node: WholeNode) {
  const { callers, inside, outside } = yield* scene(node)
  const table = new Map<string, Row>()
  const faults: Array<string> = []
  const secret = Object.entries(outside).filter(([kind]) => kind !== "replaySession").map(([, id]) => id as string)
  const blind = new Set<Column>(columns.filter((column) => column !== "operator" && column !== "admin"))
  const all = questions()
  for (const question of all.toSorted((a, b) => rank(a) - rank(b))) {
    const row: Partial<Record<Column, Verdict>> = {}
    for (const caller of callers) {
      const { name } = caller
      if (name.endsWith("Outside") && !concerns(question)) {
        row[name] = "-"
        continue
      }
      const things = name === "viewer" || name === "hallOperator" || name === "peer" ? inside : outside
      const told = yield* Effect.promise(() => ask(node.base, question, things, caller))
      row[name] = verdictOf(question, told)
      const complain = (why: string) =>
        faults.push(
          `${name}: ${question.operation} ${question.about}: ${why}: ${told.status} ${told.body.slice(0, 500)}`,
        )
      if (told.status < 300 && blind.has(name) && secret.some((id) => told.body.includes(id))) {
        complain("shows too much")
      }
      // There is no camera behind the addresses of this node.
      const away = told.status === 503 && told.body.includes("\"camera_unreachable\"")
      if (told.status >= 500 && told.status !== 501 && !away) complain("failed")
      if (row[name] === "hidden") {
        const absent = yield* Effect.promise(() => ask(node.base, question, nothing, caller))
        if (neutral(told, outside) !== neutral(absent, nothing)) complain(`is not ${absent.status} ${absent.body}`)
      }
    }
    table.set(`${question.operation}\t${question.about}`, row as Row)
  }
  return { table: new Map([...table].toSorted(([a], [b]) => (a < b ? -1 : 1))), faults }
})

/** The table as it stands in `contract/access-matrix.tsv`. */
export const written = (table: ReadonlyMap<string, Row>): string =>
  [
    ["operation", "about", ...columns].join("\t"),
    ...[...table].map(([key, row]) => [key, ...columns.map((column) => row[column])].join("\t")),
    "",
  ].join("\n")

export const parsed = (text: string): ReadonlyMap<string, Row> =>
  new Map(
    text.trimEnd().split("\n").slice(1).map((line) => {
      const [operation = "", about = "", ...verdicts] = line.split("\t")
      const row = Object.fromEntries(columns.map((column, i) => [column, verdicts[i] as Verdict])) as Record<
        Column,
        Verdict
      >
      return [`${operation}\t${about}`, row]
    }),
  )
