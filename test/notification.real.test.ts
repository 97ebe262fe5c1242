/**
 * The live channel and notifications on a whole node with a PostgreSQL: what a user sees, what he misses, and when he is cut off.
 */
import * as NodeWS from "@effect/platform-node/NodeWS"
import { Effect } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll, expect, it } from "vitest"
import { type EventMaker, startMaker, startPostgres } from "./harness/event-maker.ts"
import { proveResume } from "./harness/event-proof.ts"
import { makeNode, type NodeProcess, sleep } from "./harness/node-process.ts"
import { makeReport } from "./harness/report.ts"

const password = "a password of the test"
const path = "/notification/api/v1"

interface Message {
  readonly kind: string
  readonly cursor: string
  readonly event: { readonly id: string; readonly type: string; readonly subject: string }
}
type Body = Record<string, never>

let folder: string
let postgres: Awaited<ReturnType<typeof startPostgres>>
let node: NodeProcess
let maker: EventMaker
let admin: string

const call = async (token: string, method: string, where: string, body?: unknown) => {
  const response = await fetch(`${node.url}${where}`, {
    method,
    headers: { "content-type": "application/json", ...token === "" ? {} : { authorization: `Bearer ${token}` } },
    ...body === undefined ? {} : { body: JSON.stringify(body) },
  })
  const text = await response.text()
  return { status: response.status, body: (text === "" ? {} : JSON.parse(text)) as Body }
}
const signIn = async (username: string) =>
  (await call("", "POST", "/auth/api/v1/auth/login", { username, password })).body["accessToken"]! as string

let users = 0
/** A new user with these roles; answers his id and token. */
const userWith = async (...roles: ReadonlyArray<string>) => {
  const username = `user-${++users}`
  const made = await call(admin, "POST", "/auth/api/v1/users", { username, password, roles, mustChangePassword: false })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return { id: made.body["id"]! as string, username, token: await signIn(username) }
}

/** A WebSocket; `closed` is the code it ends with. */
const open = (options: { readonly query?: string; readonly token?: string; readonly hello?: unknown } = {}) => {
  const { hello, query = "", token } = options
  const protocols = token === undefined ? [] : ["nightjar", token]
  const socket = new NodeWS.WebSocket(`${node.url.replace("http", "ws")}${path}/stream${query}`, protocols)
  const messages: Array<Message> = []
  socket.on("message", (data: Buffer) => void messages.push(JSON.parse(String(data)) as Message))
  socket.on("error", () => socket.terminate())
  if (hello !== undefined) {
    socket.on("open", () => socket.send(typeof hello === "string" ? hello : JSON.stringify(hello)))
  }
  const closed = new Promise<number>((resolve) => socket.on("close", (code) => resolve(code)))
  return {
    socket,
    messages,
    closed,
    subjects: () => messages.flatMap(({ event }) => event === undefined ? [] : [event.subject]),
  }
}

const until = async (what: string, holds: () => boolean | Promise<boolean>) => {
  for (const begun = performance.now(); !(await holds());) {
    if (performance.now() - begun > 30_000) throw new Error(`never came: ${what}`)
    await sleep(20)
  }
}
const begun = (channel: ReturnType<typeof open>) => until("a welcome", () => channel.messages[0]?.kind === "welcome")

const folderEvent = (subject: string) => ({
  type: "storage.folder.failed" as const,
  subject,
  resource: [],
  data: { name: subject, path: "/disk", state: "missing", detail: "gone" },
})
const cameraEvent = (cameraId: string, subject: string) => ({
  type: "camera.offline" as const,
  subject,
  resource: [{ kind: "camera" as const, id: cameraId }],
  data: {
    name: "Gate",
    cameraId: cameraId as never,
    channelId: cameraId as never,
    streamId: cameraId as never,
    role: "main",
    reason: "refused",
    changes: 1,
  },
})

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "nightjar-notification-"))
  postgres = await startPostgres(join(folder, "postgres"))
  node = await makeNode(join(folder, "node"), {
    NIGHTJAR_DATABASE_URL: postgres.url,
    NIGHTJAR_ADMIN_PASSWORD: password,
    NIGHTJAR_LOG_LEVEL: "warn",
  })
  await node.start()
  maker = await startMaker(join(folder, "maker"), postgres.url)
  admin = await signIn("admin")
})

afterAll(async () => {
  await maker.end()
  await node.stop()
  await postgres.end()
  rmSync(folder, { recursive: true, force: true })
})

it("asks for a token before anything else, wherever it comes from", async () => {
  expect((await call("", "GET", `${path}/stream`)).status).toBe(401)
  expect((await call(admin, "GET", `${path}/stream`)).status).toBe(426)
  expect((await call(admin, "GET", `${path}/stream?lastEventId=no+such`)).status).toBe(422)
  expect((await call(admin, "GET", `${path}/stream?types=no.such`)).status).toBe(422)
  expect(await open({ token: "not.a.token" }).closed).toBe(4401)
  expect(await open({ hello: { kind: "hello", token: "not.a.token" } }).closed).toBe(4401)
  expect(await open({ hello: { kind: "hello" } }).closed).toBe(4401)
  expect(await open({ hello: "not json" }).closed).toBe(4400)
  expect(await open({ hello: { kind: "hello", token: admin, types: ["no.such"] } }).closed).toBe(4400)
  const powerless = await userWith()
  expect(await open({ token: powerless.token }).closed).toBe(4403)
  for (
    const [method, where] of [["GET", ""], ["GET", "/missed"], ["GET", "/unread/count"], ["POST", "/read-all"], [
      "POST",
      "/x/read",
    ], ["DELETE", "/x"]] as const
  ) {
    expect((await call("", method, `${path}/notifications${where}`)).status).toBe(401)
    expect((await call(powerless.token, method, `${path}/notifications${where}`)).status).toBe(403)
  }
  expect((await call("", "GET", "/search/api/v1/events/types")).status).toBe(401)
})

it("lists every type with the schema of its data", async () => {
  const { body, status } = await call(admin, "GET", "/search/api/v1/events/types")
  expect(status).toBe(200)
  const items = body["items"]! as ReadonlyArray<
    { readonly type: string; readonly dataSchema: { readonly type: string } }
  >
  expect(items.map(({ type }) => type)).toContain("recording.gap.opened")
  expect(items.every(({ dataSchema }) => dataSchema.type === "object")).toBe(true)
})

it("follows by WebSocket and SSE, filtered, and goes on behind a cursor", async () => {
  const first = open({ token: admin, query: "?types=storage.*" })
  const greeted = open({ hello: { kind: "hello", token: admin, minimumSeverity: "critical" } })
  await Promise.all([begun(first), begun(greeted)])
  await maker.tell([folderEvent("a"), { ...folderEvent("b"), severity: "info" }])
  await until("both events", () => first.subjects().length === 2)
  await until("the severe one", () => greeted.subjects().length === 1)
  expect([first.subjects().toSorted(), greeted.subjects()]).toEqual([["a", "b"], ["a"]])
  first.socket.terminate()
  await maker.tell([folderEvent("c")])
  const { cursor } = first.messages.at(-1)!
  const again = open({ token: admin, query: `?types=storage.*&lastEventId=${cursor}` })
  await until("what came meanwhile", () => again.subjects().length === 1)
  expect(again.subjects()).toEqual(["c"])
  const stream = await fetch(`${node.url}${path}/stream?types=storage.*`, {
    headers: { authorization: `Bearer ${admin}`, accept: "text/event-stream", "last-event-id": cursor },
  })
  expect(stream.headers.get("content-type")).toBe("text/event-stream")
  let text = ""
  for await (const chunk of stream.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    if (text.includes("event: event")) break
  }
  expect(text).toMatch(/^id: \S+\nevent: welcome\ndata: \{.*\}\n\nid: \S+\nevent: event\ndata: .*"subject":"c"/)
  again.socket.terminate()
  greeted.socket.terminate()
})

it("tells once what is not kept any more", async () => {
  const foreign = open({ token: admin, query: "?lastEventId=1-abcdef" })
  await until("a reset", () => foreign.messages[1]?.kind === "reset")
  // What is kept follows: the events that the tests before have told.
  await until("the log", () => foreign.subjects().includes("c"))
  expect(foreign.messages.filter(({ kind }) => kind === "reset").length).toBe(1)
  foreign.socket.terminate()
})

it("shows to each what he may see, by the permissions of the moment", async () => {
  const made = await call(admin, "POST", "/camera/api/v1/cameras", {
    name: "Gate",
    driver: "rtsp",
    streams: [{ role: "main", sourceUrl: "rtsp://127.0.0.1:1/none" }],
  })
  const cameraId = made.body["id"]! as string
  const role = { name: "guard", permissions: ["camera:read", "notification:read"] }
  expect((await call(admin, "POST", "/auth/api/v1/roles", role)).status).toBe(201)
  const group = await call(admin, "POST", "/permission/api/v1/resource-groups", { name: "Gates" })
  const groups = "/permission/api/v1/roles/guard/resource-groups"
  expect((await call(admin, "PUT", groups, { groupIds: [group.body["id"]] })).status).toBe(200)
  const guard = await userWith("guard")
  const channel = open({ token: guard.token })
  const observer = open({ token: admin })
  await Promise.all([begun(channel), begun(observer)])
  await maker.tell([folderEvent("not his"), cameraEvent(cameraId, "not yet his")])
  await until("both are handed out", () => observer.subjects().includes("not yet his"))
  const resources = { resources: [{ kind: "camera", id: cameraId }] }
  const where = `/permission/api/v1/resource-groups/${group.body["id"]! as string}/resources`
  expect((await call(admin, "POST", where, resources)).status).toBe(200)
  await until("he may see it", async () => {
    await maker.tell([cameraEvent(cameraId, "his"), folderEvent("not his")])
    await sleep(200)
    return channel.subjects().includes("his")
  })
  // The camera that nobody answers for tells so itself.
  await until("the word of the camera", () => observer.subjects().includes(cameraId))
  expect(channel.subjects()).not.toContain("not his")
  expect(channel.subjects()).not.toContain("not yet his")
  const listed = await call(guard.token, "GET", `${path}/notifications?minimumSeverity=critical`)
  const events = (listed.body["items"]! as ReadonlyArray<{ readonly event: Message["event"] }>).map(({ event }) =>
    event
  )
  expect(new Set(events.map(({ subject }) => subject))).toEqual(new Set(["his", "not yet his", cameraId]))
  channel.socket.terminate()
  observer.socket.terminate()
})

it("closes when the session ends or the permission goes, and takes a fresh token of the same user alone", async () => {
  const [one, other] = [await userWith("viewer"), await userWith("viewer")]
  const channel = open({ token: one.token })
  const renewed = open({ token: other.token })
  await Promise.all([begun(channel), begun(renewed)])
  renewed.socket.send(JSON.stringify({ kind: "token", token: await signIn(other.username) }))
  channel.socket.send(JSON.stringify({ kind: "token", token: other.token }))
  expect(await channel.closed).toBe(4401)
  const ended = open({ token: one.token })
  await begun(ended)
  await call(admin, "POST", `/auth/api/v1/sessions/${one.id}/terminate`)
  expect(await ended.closed).toBe(4401)
  expect(renewed.socket.readyState).toBe(NodeWS.WebSocket.OPEN)
  await call(admin, "DELETE", `/auth/api/v1/users/${other.id}/roles/viewer`)
  expect([4401, 4403]).toContain(await renewed.closed)
})

it("keeps for each user what he has read, missed and deleted", async () => {
  const [one, other] = [await userWith("operator"), await userWith("operator")]
  const get = async (token: string, where: string) => {
    const { body, status } = await call(token, "GET", `${path}/notifications${where}`)
    expect(status, JSON.stringify(body)).toBe(200)
    return body
  }
  const subjects = async (token: string, where = "") =>
    ((await get(token, where))["items"]! as ReadonlyArray<{ readonly event: { readonly subject: string } }>)
      .map(({ event }) => event.subject)
  const count = async (token: string) => (await get(token, "/unread/count"))["count"]! as number
  await until("nothing old", async () => (await subjects(one.token)).length === (await subjects(other.token)).length)
  const before = await count(one.token)
  await maker.tell([folderEvent("n1")])
  await maker.tell([folderEvent("n2")])
  await maker.tell([folderEvent("n3")])
  await until("three", async () => (await count(one.token)) === before + 3)
  expect((await subjects(one.token, "?limit=2")).slice(0, 2)).toEqual(["n3", "n2"])
  const page = await get(one.token, "?limit=2")
  expect((await subjects(one.token, `?limit=1&cursor=${page["nextCursor"]! as string}`))[0]).toBe("n1")
  expect((await call(one.token, "GET", `${path}/notifications?cursor=x`)).status).toBe(400)
  const [n3, n2] = page["items"]! as ReadonlyArray<{ readonly id: string; readonly read: boolean }>
  expect(n3!.read).toBe(false)
  const read = await call(one.token, "POST", `${path}/notifications/${n3!.id}/read`)
  expect([read.status, read.body["read"]]).toEqual([200, true])
  expect((await call(one.token, "POST", `${path}/notifications/${n3!.id}/read`)).status).toBe(200)
  expect((await call(one.token, "DELETE", `${path}/notifications/${n2!.id}`)).status).toBe(204)
  expect((await call(one.token, "DELETE", `${path}/notifications/${n2!.id}`)).status).toBe(404)
  expect((await call(one.token, "POST", `${path}/notifications/${n2!.id}/read`)).status).toBe(404)
  expect((await call(one.token, "POST", `${path}/notifications/unknown/read`)).status).toBe(404)
  expect(await count(one.token)).toBe(before + 1)
  expect(await count(other.token)).toBe(before + 3)
  expect((await subjects(one.token, "?unread=true")).slice(0, 1)).toEqual(["n1"])
  expect((await call(one.token, "POST", `${path}/notifications/read-all`)).status).toBe(204)
  expect(await count(one.token)).toBe(0)
  expect(await count(other.token)).toBe(before + 3)
  // A viewer may not see what happens to folders: for him there is no such notification.
  const viewer = await userWith("viewer")
  expect((await call(viewer.token, "POST", `${path}/notifications/${n3!.id}/read`)).status).toBe(404)
})

it("tells what was missed while no channel was open", async () => {
  const { id, token } = await userWith("operator")
  const missed = async () =>
    ((await call(token, "GET", `${path}/notifications/missed`)).body["items"]! as ReadonlyArray<
      { readonly event: { readonly subject: string } }
    >).map(({ event }) => event.subject)
  await maker.tell([folderEvent("before")])
  await until("what came before he was ever there", async () => (await missed()).includes("before"))
  const channel = open({ token })
  await begun(channel)
  const presence = () =>
    maker.sql((sql) =>
      Effect.map(sql`SELECT 1 FROM event_reader WHERE user_id = ${id} AND seen_at IS NOT NULL`, (rows) => [...rows])
    )
  await until("his presence", async () => (await presence()).length === 1)
  await maker.tell([folderEvent("during")])
  await until("the event", () => channel.subjects().includes("during"))
  // While it is open, what was missed is what came before it.
  expect(await missed()).toContain("before")
  expect(await missed()).not.toContain("during")
  channel.socket.close()
  await channel.closed
})

it("loses and doubles nothing over reconnects and a kill -9", async () => {
  const report = makeReport(true)
  await proveResume(report, { clients: 4, reconnects: 12, restarts: 1, perSecond: 100, seed: 5 })
  expect(report.faults).toEqual([])
})
