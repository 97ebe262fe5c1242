/** HTTPS as other programs see it (openssl, curl): certificates, versions, renewal; headers, origins and proxies over a socket. */
import type { Auth } from "#actors/protocol/auth.ts"
import { serverLayer, type ServerOptions } from "#http/server.ts"
import { examineCertificate, makeCertificate } from "#ops/host/certificate.ts"
import { ownCertificatePath, servingCertificate } from "#ops/host/tls.ts"
import { InvalidRefreshToken } from "#schema/auth.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, type FileSystem, Layer, Logger, type Scope, Stream, SubscriptionRef } from "effect"
import { HttpServer } from "effect/http"
import { execFile } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs"
import { connect, isIP } from "node:net"
import { tmpdir } from "node:os"
import { join } from "node:path"
import {
  authWith,
  memoryIdempotency,
  namedTokens,
  serverOptions,
  testHealth,
  unaskedServices,
} from "./http-fixtures.ts"

const dayMs = 86_400_000

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-tls-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

const start = (options: Partial<ServerOptions> = {}, members: Partial<Auth["Service"]> = {}) =>
  Effect.gen(function*() {
    const server = serverLayer({ ...serverOptions, ...options }).pipe(
      Layer.provide([namedTokens, authWith(members), memoryIdempotency, testHealth, unaskedServices]),
      Layer.provide(NodeHttpServer.layerHttpServices),
    )
    const { address } = Context.get(yield* Layer.build(server), HttpServer.HttpServer)
    return "port" in address ? address.port : 0
  })

/** Runs another program; what it wrote and how it ended. */
const run = (program: string, args: ReadonlyArray<string>, input = "") =>
  Effect.promise(() =>
    new Promise<{ readonly code: number; readonly text: string }>((resolve) => {
      const child = execFile(program, args, { timeout: 20_000 }, (error, stdout, stderr) => {
        resolve({ code: typeof error?.code === "number" ? error.code : error === null ? 0 : -1, text: stdout + stderr })
      })
      child.stdin?.end(input)
    })
  )

const live = (name: string, test: () => Effect.Effect<void, unknown, Scope.Scope | FileSystem.FileSystem>) =>
  it.live(name, () => test().pipe(Effect.provide(NodeFileSystem.layer), Effect.provide(Logger.layer([]))))

const own = (dataFolder: string) => servingCertificate({ dataFolder, host: "0.0.0.0", files: null })

describe("a certificate of the node's own", () => {
  live(
    "is verified by openssl and curl by address and by name, and its fingerprint is the one that is told",
    () =>
      Effect.gen(function*() {
        const data = yield* folder
        const tls = yield* own(data)
        const port = yield* start({ tls })
        const ca = ownCertificatePath(data)
        const shown = yield* run("openssl", [
          "s_client",
          "-connect",
          `127.0.0.1:${port}`,
          "-CAfile",
          ca,
          "-verify_ip",
          "127.0.0.1",
          "-verify_return_error",
        ])
        assert.match(shown.text, /Verify return code: 0 \(ok\)/)
        assert.match(shown.text, /TLSv1\.3/)
        const print = yield* run("openssl", ["x509", "-in", ca, "-noout", "-fingerprint", "-sha256"])
        const { fingerprint } = yield* SubscriptionRef.get(tls)
        assert.include(print.text, fingerprint)
        const health = yield* run("curl", ["-sS", "-i", "--cacert", ca, `https://localhost:${port}/health`])
        assert.match(health.text, /^HTTP\/1\.1 200/)
        assert.match(health.text, /strict-transport-security: max-age=31536000/i)
        const stranger = yield* run("curl", ["-sS", `https://127.0.0.1:${port}/health`])
        assert.strictEqual(stranger.code, 60)
      }),
  )

  live("is spoken to by TLS 1.2 and 1.3 only", () =>
    Effect.gen(function*() {
      const port = yield* start({ tls: yield* own(yield* folder) })
      const old = yield* run("openssl", [
        "s_client",
        "-connect",
        `127.0.0.1:${port}`,
        "-tls1_1",
        "-cipher",
        "ALL:@SECLEVEL=0",
      ])
      assert.notStrictEqual(old.code, 0)
      assert.notMatch(old.text, /Server certificate\n-----BEGIN/)
      const least = yield* run("openssl", ["s_client", "-connect", `127.0.0.1:${port}`, "-tls1_2"])
      assert.match(least.text, /Protocol\s*: TLSv1\.2|New, TLSv1\.2/)
    }))

  live("is kept over a restart, and its key is for its owner's eyes", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const print = Effect.scoped(
        Effect.flatMap(
          own(data),
          (source) => Effect.map(SubscriptionRef.get(source), ({ fingerprint }) => fingerprint),
        ),
      )
      const first = yield* print
      assert.strictEqual(yield* print, first)
      assert.strictEqual(statSync(join(data, "tls", "own.pem")).mode & 0o777, 0o600)
      assert.notMatch(readFileSync(ownCertificatePath(data), "utf8"), /PRIVATE/)
      // One that ends soon is renewed, one that cannot be read is replaced.
      const soon = yield* makeCertificate({
        commonName: "old",
        names: ["localhost"],
        addresses: [],
        notBeforeMs: Date.now() - dayMs,
        notAfterMs: Date.now() + 29 * dayMs,
      })
      for (const text of [soon.certificate + soon.privateKey, "damaged", soon.certificate]) {
        writeFileSync(join(data, "tls", "own.pem"), text)
        const next = yield* print
        assert.notStrictEqual(next, examineCertificate(soon).fingerprint)
        assert.strictEqual(yield* print, next)
      }
    }))

  live("names what the node was told to listen on, and is made anew where it does not", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const at = (host: string) =>
        Effect.scoped(Effect.flatMap(servingCertificate({ dataFolder: data, host, files: null }), SubscriptionRef.get))
      const first = yield* at("0.0.0.0")
      assert.strictEqual((yield* at("127.0.0.1")).fingerprint, first.fingerprint)
      for (const host of ["192.0.2.17", "2001:db8::17", "nvr.example.test"]) {
        const before = yield* at("0.0.0.0")
        const named = yield* at(host)
        assert.notStrictEqual(named.fingerprint, before.fingerprint, host)
        assert.strictEqual((yield* at(host)).fingerprint, named.fingerprint, host)
        const check = isIP(host) === 0 ? "-checkhost" : "-checkip"
        const { text } = yield* run("openssl", ["x509", "-in", ownCertificatePath(data), "-noout", check, host])
        assert.match(text, /does match/)
      }
    }))

  live(
    "answers whoever comes in clear text with the way to HTTPS, and shows him nothing",
    () =>
      Effect.gen(function*() {
        const port = yield* start({ tls: yield* own(yield* folder) })
        const plain = yield* run("curl", ["-sS", "-i", `http://127.0.0.1:${port}/auth/api/v1/auth/config?x=1`])
        assert.match(plain.text, /^HTTP\/1\.1 308/)
        assert.include(plain.text, `location: https://127.0.0.1:${port}/auth/api/v1/auth/config?x=1`)
        assert.match(plain.text, /This port speaks HTTPS/)
        const nameless = yield* run("curl", ["-sS", "-i", "-H", "Host: evil.test/\\@x", `http://127.0.0.1:${port}/`])
        assert.match(nameless.text, /^HTTP\/1\.1 400/)
        assert.notMatch(nameless.text, /location/i)
        // What is neither ends without harm.
        yield* Effect.promise(() =>
          new Promise<void>((resolve) => {
            const socket = connect(port, "127.0.0.1", () => socket.end(Buffer.from([0, 1, 2, 3])))
            // A client that reads nothing never hears of the end.
            socket.resume()
            socket.on("error", () => {})
            socket.on("close", () => resolve())
          })
        )
        assert.match((yield* run("curl", ["-sSk", `https://127.0.0.1:${port}/health`])).text, /"pass"/)
      }),
  )
})

describe("a certificate of the administrator's", () => {
  live("is read again when its files change, and a broken one leaves the old in use", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const files = { certificate: join(data, "cert.pem"), privateKey: join(data, "key.pem") }
      const make = (name: string) =>
        makeCertificate({
          commonName: name,
          names: ["localhost"],
          addresses: ["127.0.0.1"],
          notBeforeMs: Date.now() - dayMs,
          notAfterMs: Date.now() + 90 * dayMs,
        })
      const put = (pair: { readonly certificate: string; readonly privateKey: string }) => {
        writeFileSync(files.certificate, pair.certificate)
        writeFileSync(files.privateKey, pair.privateKey)
      }
      const [first, second] = [yield* make("first"), yield* make("second")]
      put(first)
      const lookEvery = "100 millis"
      const tls = yield* servingCertificate({ dataFolder: data, host: "0.0.0.0", files, lookEvery })
      const port = yield* start({ tls })
      const shown = Effect.map(
        run("openssl", ["s_client", "-connect", `127.0.0.1:${port}`, "-CAfile", files.certificate]),
        ({ text }) => /subject=\s*CN\s*=\s*(\w+)/.exec(text)?.[1],
      )
      assert.strictEqual(yield* shown, "first")
      writeFileSync(files.certificate, second.certificate)
      // The key does not fit yet: a renewal writes the one file after the other.
      yield* Effect.sleep("1 second")
      assert.strictEqual(yield* shown, "first")
      put(second)
      yield* SubscriptionRef.changes(tls).pipe(
        Stream.filter(({ fingerprint }) => fingerprint === examineCertificate(second).fingerprint),
        Stream.runHead,
        Effect.timeout("15 seconds"),
      )
      assert.strictEqual(yield* shown, "second")
    }))

  live("that cannot be used stops the start", () =>
    Effect.gen(function*() {
      const data = yield* folder
      const files = { certificate: join(data, "none.pem"), privateKey: join(data, "none.key") }
      const failure = yield* Effect.flip(servingCertificate({ dataFolder: data, host: "0.0.0.0", files }))
      assert.match(failure.message, /none\.pem cannot be used/)
    }))
})

const refresh = "/auth/api/v1/auth/refresh"
const ask = (port: number, path: string, init: RequestInit = {}) =>
  Effect.promise(() => fetch(`http://127.0.0.1:${port}${path}`, init))

describe("pages of other origins", () => {
  live("get nothing unless the operator named them", () =>
    Effect.gen(function*() {
      const closed = yield* start()
      const from = (origin: string) => ({ headers: { origin } })
      const asks = {
        method: "OPTIONS",
        headers: { origin: "https://wall.test", "access-control-request-method": "POST" },
      }
      const none = yield* ask(closed, "/health", from("https://wall.test"))
      assert.isNull(none.headers.get("access-control-allow-origin"))
      assert.strictEqual(none.headers.get("cross-origin-resource-policy"), "same-origin")
      assert.isNull((yield* ask(closed, refresh, asks)).headers.get("access-control-allow-methods"))

      const open = yield* start({ corsOrigins: ["https://wall.test"] })
      const listed = yield* ask(open, "/health", from("https://wall.test"))
      assert.strictEqual(listed.headers.get("access-control-allow-origin"), "https://wall.test")
      assert.isNull(listed.headers.get("access-control-allow-credentials"))
      assert.match(listed.headers.get("vary") ?? "", /origin/)
      const preflight = yield* ask(open, refresh, asks)
      assert.strictEqual(preflight.status, 204)
      assert.match(preflight.headers.get("access-control-allow-headers") ?? "", /authorization/)
      for (const origin of ["https://wall.test.evil", "http://wall.test", "https://wall.test:444", "null"]) {
        assert.isNull((yield* ask(open, "/health", from(origin))).headers.get("access-control-allow-origin"), origin)
      }
    }))

  live("cannot trigger a refresh by cookie", () =>
    Effect.gen(function*() {
      let asked = 0
      const port = yield* start({}, {
        refresh: () => {
          asked += 1
          return Effect.fail(new InvalidRefreshToken())
        },
      })
      const withCookie = (headers: Record<string, string>) =>
        ask(port, refresh, {
          method: "POST",
          body: "{}",
          headers: { "content-type": "application/json", cookie: "nightjar_refresh=stolen", ...headers },
        })
      for (const site of ["cross-site", "same-site"]) yield* withCookie({ "sec-fetch-site": site })
      yield* withCookie({ origin: "https://evil.test" })
      yield* withCookie({ origin: "null" })
      yield* withCookie({ origin: `http://127.0.0.1:${port + 1}` })
      assert.strictEqual(asked, 0)
      yield* withCookie({ "sec-fetch-site": "same-origin" })
      yield* withCookie({ origin: `http://127.0.0.1:${port}` })
      assert.strictEqual(asked, 2)
    }))
})

describe("behind a proxy", () => {
  live("the scheme is the caller's, and headers that contradict each other are refused", () =>
    Effect.gen(function*() {
      const port = yield* start({ trustedProxies: ["127.0.0.1"] })
      const secure = { "x-forwarded-for": "198.51.100.1", "x-forwarded-proto": "https" }
      assert.isNotNull((yield* ask(port, "/health", { headers: secure })).headers.get("strict-transport-security"))
      const two = yield* ask(port, "/health", { headers: { ...secure, forwarded: "for=127.0.0.1" } })
      assert.strictEqual(two.status, 400)
      assert.strictEqual((yield* Effect.promise(() => two.json() as Promise<{ code: string }>)).code, "bad_request")
      const closed = yield* start()
      const untrusted = yield* ask(closed, "/health", { headers: secure })
      assert.isNull(untrusted.headers.get("strict-transport-security"))
    }))
})
