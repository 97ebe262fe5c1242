/** Nodes that lose sight of each other on a network of their own: real processes, a real bridge, a real PostgreSQL. */
import { expect, it } from "@effect/vitest"
import { randomBytes } from "node:crypto"
import { type Machine, Net, noNamespaces } from "../harness/namespaces.ts"
import { sleep } from "../harness/node-process.ts"

const reason = noNamespaces()
const leftOut = reason === null ? "" : ` (left out: ${reason})`

const members = async (machine: Machine) =>
  ((await machine.call("GET", "/federation/api/v1/federation/members")) as {
    readonly items: ReadonlyArray<{ readonly name: string; readonly admitted: boolean; readonly address: string }>
  }).items

const failover = "/federation/api/v1/federation/failover"
/** Until it guards nobody. */
const unguarded = async (machine: Machine): Promise<void> => {
  for (const begun = performance.now();; await sleep(200)) {
    const { items } = (await machine.call("GET", `${failover}/protections`)) as {
      readonly items: ReadonlyArray<unknown>
    }
    if (items.length === 0) return
    if (performance.now() - begun > 60_000) throw new Error(`it guards: ${JSON.stringify(items)}`)
  }
}

/** Until the answer has this status, for at most a minute. */
const until = async (machine: Machine, where: string, status: number): Promise<void> => {
  const begun = performance.now()
  while (true) {
    const answer = await machine.ask("GET", where)
    if (answer.status === status) return
    if (performance.now() - begun > 60_000) throw new Error(`never ${status}: ${JSON.stringify(answer)}`)
    await sleep(200)
  }
}

it.skipIf(reason !== null)(
  `two nodes that are cut from each other go on, say so of each other's cameras, and find each other again${leftOut}`,
  { timeout: 240_000 },
  async () => {
    const net = new Net()
    try {
      const database = await net.database()
      const shared = {
        NIGHTJAR_DATABASE_URL: database.url,
        NIGHTJAR_CLUSTER_SECRET: randomBytes(32).toString("base64"),
        NIGHTJAR_BUS_PORT: "9011",
      }
      const east = net.machine("east", shared)
      const west = net.machine("west", shared)
      await east.start()
      await west.start()
      await Promise.all([members(east), members(west)])
      const answering = async (machine: Machine, others: number) => {
        const line = `Other nodes that answer on the bus: ${others}`
        for (const begun = performance.now(); !machine.said().includes(line); await sleep(200)) {
          if (performance.now() - begun > 60_000) throw new Error(`never said: ${line}`)
        }
      }
      await Promise.all([answering(east, 1), answering(west, 1)])

      // One that takes no part in it is guarded by nobody by itself: its cameras stay with it.
      await east.call("PUT", `${failover}/settings`, { guardMembers: false })
      for (const machine of [east, west]) await unguarded(machine)

      const camera = (await east.call("POST", "/camera/api/v1/cameras", {
        name: "gate",
        driver: "rtsp",
        streams: [{ role: "main", sourceUrl: "rtsp://10.77.0.200/live" }],
      })) as { readonly id: string }
      const asked = `/camera/api/v1/cameras/${camera.id}/capabilities`
      // The node that serves the camera answers, whichever is asked; there is no such camera, so its answer is the refusal.
      const answered = (await east.ask("GET", asked)).status
      expect(answered).not.toBe(503)
      await until(west, asked, answered)

      net.cut(east, west)
      await until(west, asked, 503)
      await Promise.all([answering(east, 0), answering(west, 0)])
      expect((await east.ask("GET", asked)).status).toBe(answered)
      // Both still have the database, and themselves.
      expect((await members(west)).map(({ name }) => name)).toEqual(["east", "west"])
      expect(
        await west.call("POST", "/camera/api/v1/cameras", {
          name: "yard",
          driver: "rtsp",
          streams: [{ role: "main", sourceUrl: "rtsp://10.77.0.201/live" }],
        }),
      ).toMatchObject({ name: "yard" })

      net.heal(east, west)
      await until(west, asked, answered)
    } finally {
      await net.end()
    }
  },
)

it.skipIf(reason !== null)(
  `nodes of one network find each other by multicast${leftOut}`,
  { timeout: 120_000 },
  async () => {
    const net = new Net()
    try {
      const heard = await Promise.all([net.discovery("east", 1), net.discovery("west", 2)])
      expect(heard).toEqual(["west https://10.77.0.202:8443", "east https://10.77.0.201:8443"])
    } finally {
      await net.end()
    }
  },
)
