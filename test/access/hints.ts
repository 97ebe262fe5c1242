/** What happens on one node is shown on the other, with the bus between them and, a little later, without it. */
import { assert, it } from "@effect/vitest"
import { readFileSync } from "node:fs"
import { sse } from "../harness/event-clients.ts"
import { sleep } from "../harness/node-process.ts"
import type { TwoNodes } from "../harness/two-nodes.ts"
import { calling, login, makeUser, tokenOf } from "./fixtures.ts"

const until = async (what: string, holds: () => boolean) => {
  for (const begun = performance.now(); performance.now() - begun < 60_000;) {
    if (holds()) return
    await sleep(50)
  }
  assert.fail(`never came: ${what}`)
}

/** Restarts the other node: nothing may run on it afterwards that wants to be where it was. */
export const hints = (cluster: TwoNodes) => {
  it("an event reaches the other node's live channel, and so it does once the bus is switched off", async () => {
    const { here, there } = cluster
    const admin = calling(here, await tokenOf(here, "admin"))
    const log = () => readFileSync(there.log, "utf8")
    const shown = async (username: string) => {
      await makeUser(admin, username, { roles: ["viewer"] })
      let heard = ""
      const door = { url: there.url, token: () => tokenOf(there, "admin") }
      const live = sse(door, await door.token(), "", (message) => heard += JSON.stringify(message))
      try {
        await until("the live channel", () => heard !== "")
        assert.strictEqual((await login(here, username, "not this one")).status, 401)
        await until(`the event of ${username}`, () => heard.includes(username))
      } finally {
        live.cut()
      }
    }
    if (cluster.withBus) await until("the bus", () => log().includes("Other nodes that answer on the bus: 1"))
    await shown("with-bus")

    await there.stop()
    const earlier = log().length
    there.set({ NIGHTJAR_BUS_PORT: "0" })
    await there.start()
    await shown("without-bus")
    assert.notInclude(log().slice(earlier), "The bus between nodes")
  }, 200_000)
}
