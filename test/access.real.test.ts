/** Users, roles, rules, sessions, permissions and what groups narrow, on two nodes of one cluster: real processes, REST alone. */
import { beforeAll } from "vitest"
import { administrator, expecting } from "./access/fixtures.ts"
import { hints } from "./access/hints.ts"
import { narrowing } from "./access/narrowing.ts"
import { permissionService } from "./access/permissions.ts"
import { phonesAndJobs } from "./access/phones-and-jobs.ts"
import { roles } from "./access/roles.ts"
import { sessions } from "./access/sessions.ts"
import { spreading } from "./access/spreading.ts"
import { users } from "./access/users.ts"
import { startTwoNodes } from "./harness/two-nodes.ts"

const cluster = startTwoNodes()

beforeAll(async () => {
  // Wrong passwords of these tests come from one address.
  const admin = await administrator(cluster.here)
  await expecting(200, admin("POST", "settings/security", { lockoutAddressFailures: 10_000 }))
})

users(cluster)
roles(cluster)
sessions(cluster)
permissionService(cluster)
narrowing(cluster)
phonesAndJobs(cluster)
spreading(cluster)
hints(cluster)
