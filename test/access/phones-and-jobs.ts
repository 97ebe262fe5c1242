/** Phones as cameras and jobs on many cameras: whoever reaches the cameras, and nobody else whose role is narrowed. */
import { assert, describe, it } from "@effect/vitest"
import type { TwoNodes } from "../harness/two-nodes.ts"
import {
  addCamera,
  type Body,
  type Call,
  calling,
  expecting,
  makeGroup,
  makeRole,
  makeUser,
  permissions,
  tokenOf,
  unknownId,
  until,
} from "./fixtures.ts"

const cameras = "/camera/api/v1/cameras"
const phones = `${cameras}/mobile`

interface Ticket {
  readonly deviceUuid: string
  readonly claimCode: string
}
interface Job {
  readonly state: string
  readonly counts: Readonly<Record<string, number>>
}

/** The same words as for an id that nobody has, but for the id. */
const unseen = async (call: Call, method: string, path: (id: string) => string, id: string) => {
  const said = async (one: string) => {
    const { traceId: _trace, ...rest } = await expecting(404, call(method, path(one))) as Body & {
      readonly traceId: string
    }
    return JSON.stringify(rest).replaceAll(one, "<id>")
  }
  assert.strictEqual(await said(id), await said(unknownId), path(id))
}

/** Somebody who may change the cameras of a group of his own, and the group's id. */
const keeper = async (cluster: TwoNodes, admin: Call, name: string, ids: ReadonlyArray<string>) => {
  const group = await makeGroup(admin, `Of ${name}`)
  const resources = ids.map((id) => ({ kind: "camera", id }))
  await expecting(200, admin("POST", `${permissions}/resource-groups/${group}/resources`, { resources }))
  await makeRole(admin, `keeper-${name}`, ["camera:read", "camera:write"])
  await expecting(200, admin("PUT", `${permissions}/roles/keeper-${name}/resource-groups`, { groupIds: [group] }))
  await makeUser(admin, name, { roles: [`keeper-${name}`] })
  return calling(cluster.here, await tokenOf(cluster.here, name))
}

export const phonesAndJobs = (cluster: TwoNodes) => {
  describe("what is more or less than a camera", () => {
    it("is a phone: told of and ended by who may change its camera", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      const prepare = async (name: string) =>
        await expecting(201, admin("POST", `${phones}/prepare`, { name })) as unknown as Ticket
      const claimed = async (name: string) => {
        const { claimCode, deviceUuid } = await prepare(name)
        const made = await expecting(201, calling(cluster.here, "")("POST", `${phones}/claim`, { claimCode }))
        return { deviceUuid, cameraId: (made as unknown as { readonly cameraId: string }).cameraId }
      }
      const [mine, foreign, waiting] = [await claimed("Mine"), await claimed("Foreign"), await prepare("Waiting")]
      const pat = await keeper(cluster, admin, "pat", [mine.cameraId])
      const status = (id: string) => `${phones}/status?deviceUuid=${id}`
      const itself = (id: string) => `${phones}/${id}`
      assert.strictEqual((await expecting(200, pat("GET", status(mine.deviceUuid)))).name, "Mine")
      for (const { deviceUuid } of [foreign, waiting]) {
        await unseen(pat, "GET", status, deviceUuid)
        await unseen(pat, "DELETE", itself, deviceUuid)
        await expecting(200, admin("GET", status(deviceUuid)))
      }
      await expecting(204, pat("DELETE", itself(mine.deviceUuid)))
      await expecting(404, admin("GET", `${cameras}/${mine.cameraId}`))
      await expecting(204, admin("DELETE", itself(waiting.deviceUuid)))
    })

    it("is a job: told of to who may change all of its cameras", async () => {
      const admin = calling(cluster.here, await tokenOf(cluster.here, "admin"))
      // An import adds no camera whose address another one has.
      const first = await addCamera(admin, "First of many")
      const streams = [{ role: "main", sourceUrl: "rtsp://127.0.0.1:9/second" }]
      const second = await expecting(201, admin("POST", cameras, { name: "Second of many", driver: "rtsp", streams }))
      const document = await expecting(200, admin("GET", `${cameras}/export`)) as unknown as {
        readonly cameras: ReadonlyArray<{ readonly id: string }>
      }
      const both = document.cameras.filter(({ id }) => id === first.id || id === second.id)
      assert.lengthOf(both, 2)
      await expecting(204, admin("DELETE", `${cameras}/${second.id}`))
      const done = async (wanted: ReadonlyArray<unknown>) => {
        const { id } = await expecting(202, admin("POST", `${cameras}/import`, { ...document, cameras: wanted }))
        const job = async () => await expecting(200, admin("GET", `${cameras}/jobs/${id}`)) as unknown as Job
        await until(200, async () => {
          const answer = await admin("GET", `${cameras}/jobs/${id}`)
          return (answer.body as unknown as Job).state === "done" ? answer : { ...answer, status: 202 }
        })
        return { id, counts: (await job()).counts }
      }
      const whole = await done(both)
      assert.deepInclude(whole.counts, { added: 1, known: 1 })
      // What could not be read is somebody else's, whoever reaches the rest.
      const torn = await done([both[0], { name: "no camera" }])
      assert.deepInclude(torn.counts, { known: 1, invalid: 1 })

      const all = await keeper(cluster, admin, "paul", [first.id, second.id])
      const some = await keeper(cluster, admin, "pam", [first.id])
      const job = (id: string) => `${cameras}/jobs/${id}`
      const items = (id: string) => `${cameras}/jobs/${id}/items`
      assert.strictEqual((await expecting(200, all("GET", job(whole.id)))).id, whole.id)
      const told = (await expecting(200, all("GET", items(whole.id)))).items as ReadonlyArray<unknown>
      assert.sameMembers(
        told.map((one) => (one as { readonly cameraId: string }).cameraId),
        [first.id, second.id],
        "also that of the camera that is there already",
      )
      for (const path of [job, items]) {
        await unseen(some, "GET", path, whole.id)
        await unseen(all, "GET", path, torn.id)
        await expecting(200, admin("GET", path(torn.id)))
      }
    })
  })
}
