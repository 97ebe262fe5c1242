/**
 * A whole node that serves HTTPS on loopback behind a trusted proxy (the test), so that callers come from where the test says:
 * management addresses, the mail server, the second factor, the command line over TLS, a new master key.
 */
import { totpParameters } from "#schema/auth-factor.ts"
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { X509Certificate } from "node:crypto"
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { request } from "node:https"
import type { AddressInfo } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Secret, TOTP } from "otpauth"
import { SMTPServer } from "smtp-server"
import { freePort, sleep } from "./harness/node-process.ts"

const root = join(import.meta.dirname, "..")
const folder = mkdtempSync(join(tmpdir(), "nightjar-network-"))
const data = join(folder, "data")
const certificate = join(data, "tls", "certificate.pem")
const password = "correct horse battery"
const outside = "198.51.100.7"
const office = "203.0.113.9"
let environment: NodeJS.ProcessEnv = {}
let port = 0
let node: ChildProcess | null = null
let log = ""

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string | ReadonlyArray<string> | undefined>>
  // Each test states what it expects of the members it looks at.
  readonly body: Record<string, unknown>
}

interface Call {
  readonly token?: unknown
  readonly body?: unknown
  readonly headers?: Record<string, string>
  /** Whom the proxy says it speaks for; nobody if left out. */
  readonly from?: string
}

const call = (method: string, path: string, { body, from, headers, token }: Call = {}): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const asked = request({
      host: "127.0.0.1",
      port,
      path,
      method,
      ca: readFileSync(certificate),
      headers: {
        "content-type": "application/json",
        ...headers,
        ...(from === undefined ? {} : { "x-forwarded-for": from, "x-forwarded-proto": "https" }),
        ...(typeof token === "string" ? { authorization: `Bearer ${token}` } : {}),
      },
    }, (response) => {
      let text = ""
      response.on("data", (chunk: Buffer) => (text += chunk.toString()))
      response.on("end", () => {
        const json = (response.headers["content-type"] ?? "").includes("json")
        resolve({
          status: response.statusCode ?? 0,
          headers: response.headers,
          body: json ? JSON.parse(text) as Answer["body"] : {},
        })
      })
    })
    asked.on("error", reject)
    asked.end(body === undefined ? undefined : JSON.stringify(body))
  })

const base = "/auth/api/v1"
const login = (more: Record<string, unknown> = {}, from = office) =>
  call("POST", `${base}/auth/login`, { from, body: { username: "admin", password, ...more } })
const signIn = async (more: Record<string, unknown> = {}) => (await login(more)).body["accessToken"]

const command = (...args: ReadonlyArray<string>) =>
  new Promise<{ readonly code: number; readonly text: string }>((resolve) => {
    execFile(
      process.execPath,
      [join(root, "ops", "main.ts"), ...args],
      { env: environment },
      (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === "number" ? error.code : 0, text: stdout + stderr })
      },
    )
  })

beforeAll(async () => {
  port = await freePort()
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("NIGHTJAR_"))
  environment = {
    ...Object.fromEntries(inherited),
    NIGHTJAR_DATA_DIR: data,
    NIGHTJAR_HTTP_PORT: String(port),
    NIGHTJAR_TLS: "on",
    NIGHTJAR_TRUSTED_PROXIES: "127.0.0.1",
    NIGHTJAR_ADMIN_PASSWORD: password,
  }
  node = spawn(process.execPath, [join(root, "ops", "main.ts"), "start"], { cwd: root, env: environment })
  for (const stream of [node.stdout, node.stderr]) stream?.on("data", (chunk: Buffer) => (log += chunk.toString()))
  for (let tries = 0; tries < 400; tries++) {
    if (node.exitCode !== null) throw new Error(log)
    const status = await login().then((answer) => answer.status, () => 0)
    if (status === 200) return
    await sleep(200)
  }
  throw new Error(`nobody could sign in:\n${log.slice(-4000)}`)
}, 120_000)

afterAll(async () => {
  const running = node
  if (running !== null && running.exitCode === null) {
    const gone = new Promise((resolve) => running.once("exit", resolve))
    running.kill("SIGTERM")
    await gone
  }
  rmSync(folder, { recursive: true, force: true })
}, 60_000)

describe("a node over HTTPS", () => {
  it("tells its fingerprint at start and to whoever asks, and its own commands trust it", async () => {
    const { fingerprint256 } = new X509Certificate(readFileSync(certificate))
    assert.include(log, fingerprint256)
    const config = await call("GET", `${base}/auth/config`)
    assert.strictEqual(config.body["tlsFingerprint"], fingerprint256)
    const status = await command("status", "--json")
    assert.strictEqual(status.code, 0, status.text)
    assert.match(status.text, /postgresql:responseTime/)
  })
})

describe("management addresses", () => {
  const ips = `${base}/settings/ips`

  it("restrict administration, not the rest, and lock nobody out by mistake", async () => {
    const token = await signIn()
    const entry = { name: "office", cidr: "::ffff:203.0.113.0/120" }
    const refused = await call("POST", ips, { token, from: outside, body: entry })
    assert.deepStrictEqual([refused.status, refused.body["code"], refused.body["address"]], [
      409,
      "would_lock_out",
      outside,
    ])
    assert.deepStrictEqual((await call("GET", ips, { token })).body["items"], [])

    const created = await call("POST", ips, { token, from: office, body: entry })
    assert.strictEqual(created.status, 201)
    assert.strictEqual(created.body["cidr"], "203.0.113.0/24")
    const { id } = created.body
    assert.strictEqual(created.headers["location"], `${ips}/${id as string}`)

    // From the next request on.
    const denied = await call("POST", ips, { token, from: outside, body: { name: "x", cidr: outside } })
    assert.strictEqual(denied.status, 403)
    assert.match(denied.body["detail"] as string, /user:write is administrative: 198\.51\.100\.7 is not among/)
    assert.strictEqual((await call("GET", ips, { token, from: outside })).status, 200)
    // Somebody at the machine itself, whom no proxy speaks for, is always let in.
    assert.strictEqual(
      (await call("PUT", `${ips}/${id as string}`, { token, body: { ...entry, enabled: true } })).status,
      200,
    )

    const check = async (from: string) => (await call("GET", `${base}/auth/ip-check`, { token, from })).body
    assert.deepStrictEqual([(await check(outside))["allowed"], (await check(outside))["address"]], [false, outside])
    assert.deepStrictEqual((await check(office))["via"], { id, name: "office", cidr: "203.0.113.0/24" })

    const one = `${ips}/${id as string}`
    const stale = await call("PUT", one, {
      token,
      from: office,
      body: { ...entry, enabled: true },
      headers: { "if-match": "\"1\"" },
    })
    assert.strictEqual(stale.status, 412)
    const lockOut = await call("PUT", one, {
      token,
      from: office,
      body: { ...entry, cidr: "192.0.2.0/24", enabled: true },
    })
    assert.strictEqual(lockOut.status, 409)
    assert.strictEqual(
      (await call("POST", ips, { token, from: office, body: { ...entry, name: "again" } })).body["code"],
      "management_ip_taken",
    )
    assert.strictEqual(
      (await call("POST", ips, { token, from: office, body: { name: "a\u0000b", cidr: office } })).status,
      400,
    )
    for (const cidr of ["203.0.113.5/24", "lan", "300.0.0.0/8", ""]) {
      assert.strictEqual(
        (await call("POST", ips, { token, from: office, body: { name: "x", cidr } })).status,
        400,
        cidr,
      )
    }
    assert.strictEqual((await call("GET", `${ips}/0190163d-8694-7395-8ad4-5b8a3f3d0a01`, { token })).status, 404)

    // Off: everybody again. On with force: even its author stays outside.
    assert.strictEqual(
      (await call("PUT", one, { token, from: office, body: { ...entry, enabled: false } })).status,
      200,
    )
    assert.strictEqual((await check(outside))["allowed"], true)
    const forced = { ...entry, enabled: true, force: true }
    assert.strictEqual((await call("PUT", one, { token, from: outside, body: forced })).status, 200)
    assert.strictEqual((await call("DELETE", one, { token, from: outside })).status, 403)
    assert.strictEqual((await call("DELETE", one, { token, from: office })).status, 204)
    assert.strictEqual((await check(outside))["allowed"], true)
  })

  it("are listed in pages", async () => {
    const token = await signIn()
    for (const cidr of ["0.0.0.0/0", "::/0", "10.0.0.0/8"]) {
      assert.strictEqual((await call("POST", ips, { token, body: { name: cidr, cidr, enabled: false } })).status, 201)
    }
    const first = (await call("GET", `${ips}?limit=2`, { token })).body
    const rest = (await call("GET", `${ips}?limit=2&cursor=${first["nextCursor"] as string}`, { token })).body
    const items = [
      ...first["items"] as Array<{ cidr: string; id: string }>,
      ...rest["items"] as Array<{ cidr: string; id: string }>,
    ]
    assert.deepStrictEqual(items.map(({ cidr }) => cidr), ["0.0.0.0/0", "::/0", "10.0.0.0/8"])
    assert.isNull(rest["nextCursor"])
    for (const { id } of items) await call("DELETE", `${ips}/${id}`, { token })
  })
})

describe("the mail server", () => {
  const smtp = `${base}/settings/smtp`

  it("is set, tested and used, and its password goes nowhere else", async () => {
    const taken: Array<string> = []
    const server = new SMTPServer({
      hideSTARTTLS: true,
      allowInsecureAuth: true,
      authOptional: false,
      onAuth: (auth, _session, done) => auth.password === "right" ? done(null, { user: "u" }) : done(new Error("no")),
      onData: (stream, _session, done) => {
        let text = ""
        stream.on("data", (chunk: Buffer) => (text += chunk.toString()))
        stream.on("end", () => {
          taken.push(text)
          done()
        })
      },
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    try {
      const token = await signIn()
      const before = await call("GET", smtp, { token })
      assert.deepStrictEqual([before.body["configured"], before.body["version"]], [false, 0])
      assert.strictEqual((await call("POST", `${smtp}/test`, { token, body: {} })).body["outcome"], "notConfigured")
      const settings = {
        host: "127.0.0.1",
        port: (server.server.address() as AddressInfo).port,
        security: "none",
        from: "nvr@example.test",
        username: "nvr",
        password: "right",
      }
      // A password in clear text only where somebody says so out loud.
      const silent = await call("POST", smtp, { token, body: settings })
      assert.deepStrictEqual([silent.status, silent.body["code"]], [422, "invalid_input"])
      const loud = { ...settings, allowUnverified: true }
      const wrong = await call("POST", `${smtp}/test`, { token, body: { settings: { ...loud, password: "wrong" } } })
      assert.strictEqual(wrong.body["outcome"], "login")
      const saved = await call("POST", smtp, { token, body: loud })
      assert.deepStrictEqual([saved.status, saved.body["hasPassword"], saved.body["version"]], [200, true, 1])
      assert.notInclude(JSON.stringify(saved.body), "right")
      const sent = await call("POST", `${smtp}/test`, { token, body: { to: "guard@example.test" } })
      assert.deepStrictEqual([sent.body["outcome"], sent.body["sent"], taken.length], ["ok", true, 1])
      // The kept password stays for the same server only.
      const { password: _, ...without } = loud
      assert.strictEqual(
        (await call("POST", smtp, { token, body: { ...without, from: "b@example.test" } })).status,
        200,
      )
      for (const change of [{ host: "localhost" }, { port: 1 }, { username: "other" }]) {
        const moved = await call("POST", smtp, { token, body: { ...without, ...change } })
        assert.deepStrictEqual(
          [moved.status, /password/.test(moved.body["detail"] as string)],
          [422, true],
          JSON.stringify(change),
        )
      }
      assert.strictEqual(
        (await call("POST", smtp, { token, body: loud, headers: { "if-match": "\"1\"" } })).status,
        412,
      )
      const pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
      assert.strictEqual((await call("POST", smtp, { token, body: { ...loud, caCertificate: pem } })).status, 422)
      const nobody = await call("POST", `${smtp}/test`, {
        token,
        body: { settings: { ...loud, port: await freePort() } },
      })
      assert.strictEqual(nobody.body["outcome"], "refused")

      // A new master key, by command: what was sealed before is of use as before.
      const rotated = await command("rotate-key", "--json")
      assert.strictEqual(rotated.code, 0, rotated.text)
      assert.match(rotated.text, /"resealing"/)
      const again = await call("POST", `${base}/settings/master-key/rotate`, { token })
      assert.deepStrictEqual([again.status, again.body["code"]], [409, "master_key_rotating"])
      assert.strictEqual((await call("POST", `${smtp}/test`, { token, body: {} })).body["outcome"], "ok")
      const key = await call("GET", `${base}/settings/master-key`, { token })
      assert.strictEqual((key.body["olderKeyIds"] as ReadonlyArray<string>).length, 1)
    } finally {
      await new Promise<void>((resolve) => server.close(() => resolve()))
    }
  })
})

describe("the second factor", () => {
  const factor = `${base}/auth/second-factor`
  /** The code of this period, or of one before or after it. */
  const codeOf = (secret: unknown, periods = 0) =>
    TOTP.generate({
      secret: Secret.fromBase32(secret as string),
      timestamp: Date.now() + periods * totpParameters.periodSeconds * 1000,
    })
  /** The code of one period before is good as long as this one lasts: not within its last seconds. */
  const midPeriod = async () => {
    const leftMs = totpParameters.periodSeconds * 1000 - Date.now() % (totpParameters.periodSeconds * 1000)
    if (leftMs < 10_000) await sleep(leftMs + 100)
  }
  /** None of the codes about now. */
  const wrong = (secret: unknown) => String((Number(codeOf(secret)) + 500_000) % 1_000_000).padStart(6, "0")

  it("is asked for from its confirmation on; codes are good once; recovery codes too", async () => {
    const token = await signIn()
    const asked = (path: string, body: unknown) => call("POST", `${factor}${path}`, { token, body })
    assert.strictEqual((await asked("/enrol", { password: "wrong" })).body["code"], "invalid_credentials")
    assert.strictEqual((await asked("/confirm", { otp: "123456" })).body["code"], "second_factor_absent")
    const enrolled = (await asked("/enrol", { password })).body
    const { secret } = enrolled
    assert.match(enrolled["uri"] as string, /^otpauth:\/\/totp\/Nightjar/)
    assert.match(enrolled["qrSvg"] as string, /^<svg/)
    assert.strictEqual((await login()).status, 200, "not asked for before it is confirmed")
    assert.strictEqual((await asked("/confirm", { otp: wrong(secret) })).body["code"], "invalid_second_factor")
    await midPeriod()
    const first = codeOf(secret, -1)
    const confirmed = await asked("/confirm", { otp: first })
    const codes = confirmed.body["recoveryCodes"] as ReadonlyArray<string>
    assert.strictEqual(codes.length, 10)
    assert.strictEqual((await asked("/enrol", { password })).body["code"], "second_factor_active")

    const without = await login()
    assert.deepStrictEqual([without.status, without.body["code"]], [401, "second_factor_required"])
    assert.strictEqual((await login({ password: "wrong" })).body["code"], "invalid_credentials")
    assert.strictEqual((await login({ otp: first })).body["code"], "invalid_second_factor", "used before")
    const now = codeOf(secret, 1)
    assert.strictEqual((await login({ otp: now })).status, 200)
    assert.strictEqual((await login({ otp: now })).body["code"], "invalid_second_factor", "used before")
    const [one = "", two = "", three = ""] = codes
    assert.strictEqual((await login({ recoveryCode: one.toUpperCase().replaceAll("-", " ") })).status, 200)
    assert.strictEqual((await login({ recoveryCode: one })).body["code"], "invalid_second_factor", "used before")
    const state = (await call("GET", factor, { token })).body
    assert.deepStrictEqual([state["active"], state["recoveryCodesLeft"]], [true, 9])

    const renewed = await asked("/recovery-codes", { password, recoveryCode: two })
    assert.strictEqual((renewed.body["recoveryCodes"] as ReadonlyArray<string>).length, 10)
    assert.strictEqual((await login({ recoveryCode: three })).body["code"], "invalid_second_factor", "renewed")
    const [fresh = ""] = renewed.body["recoveryCodes"] as ReadonlyArray<string>
    assert.strictEqual((await asked("/disable", { password })).body["code"], "second_factor_required")
    assert.strictEqual(
      (await asked("/disable", { password: "wrong", recoveryCode: fresh })).body["code"],
      "invalid_credentials",
    )
    assert.strictEqual((await asked("/disable", { password, recoveryCode: fresh })).status, 204)
    assert.strictEqual((await login()).status, 200)
  })

  it("is not guessed: wrong codes lock as wrong passwords do, and asking in between gives no new guesses", async () => {
    const admin = await signIn()
    const user = await call("POST", `${base}/users`, {
      token: admin,
      body: { username: "ann", password: "a long enough password", roles: ["viewer"], mustChangePassword: false },
    })
    assert.strictEqual(user.status, 201, JSON.stringify(user.body))
    const id = user.body["id"] as string
    const ann = (more: Record<string, unknown> = {}) =>
      login({ username: "ann", password: "a long enough password", ...more })
    const token = (await ann()).body["accessToken"]
    const enrolled = await call("POST", `${factor}/enrol`, { token, body: { password: "a long enough password" } })
    const { secret } = enrolled.body
    assert.strictEqual((await call("POST", `${factor}/confirm`, { token, body: { otp: codeOf(secret) } })).status, 200)
    const statuses: Array<number> = []
    for (let tries = 0; tries < 8; tries++) {
      statuses.push((await ann({ otp: wrong(secret) })).status, (await ann()).status)
    }
    assert.include(statuses, 429)
    assert.notInclude(statuses, 200)

    assert.strictEqual((await call("POST", `${base}/users/${id}/unlock`, { token: admin })).status, 200)
    assert.strictEqual((await ann()).body["code"], "second_factor_required")
    const self = (await call("GET", `${base}/auth/profile`, { token: admin })).body["id"] as string
    assert.strictEqual((await call("DELETE", `${base}/users/${self}/second-factor`, { token: admin })).status, 403)
    assert.strictEqual((await call("DELETE", `${base}/users/${id}/second-factor`, { token })).status, 403)
    assert.strictEqual((await call("DELETE", `${base}/users/${id}/second-factor`, { token: admin })).status, 204)
    assert.strictEqual((await ann()).status, 200)
  })
})
