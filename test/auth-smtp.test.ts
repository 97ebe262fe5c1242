/** Mail through real dialogues with SMTP servers on this machine: taken, and each way of failing told apart. */
import { checkServer, type MailLimits, sendMail } from "#actors/channels/email.ts"
import { makeCertificate } from "#ops/host/certificate.ts"
import { MailAddress, type MailFailed, type MailServer, SmtpSettingsUpdate } from "#schema/auth-smtp.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { type AddressInfo, createServer, type Server, type Socket } from "node:net"
import { SMTPServer, type SMTPServerOptions } from "smtp-server"

const limits: MailLimits = { connectMs: 700, idleMs: 700, longestMs: 5_000 }
const dayMs = 86_400_000
const now = Date.parse("2026-11-21T12:00:00Z")
const valid = { commonName: "mail", notBeforeMs: Date.now() - dayMs, notAfterMs: Date.now() + dayMs }
const own = Effect.runSync(makeCertificate({ ...valid, names: ["localhost"], addresses: ["127.0.0.1"] }))
const other = Effect.runSync(makeCertificate({ ...valid, names: ["elsewhere.test"], addresses: [] }))
const expired = Effect.runSync(makeCertificate({
  ...valid,
  names: ["localhost"],
  addresses: ["127.0.0.1"],
  notBeforeMs: now - 9 * dayMs,
  notAfterMs: now - 8 * dayMs,
}))

interface Taken {
  readonly from: string
  readonly to: ReadonlyArray<string>
  readonly text: string
}

/** A mail server on a free port; what it takes is in `taken`. */
const mailServer = (options: SMTPServerOptions) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const taken: Array<Taken> = []
      const server = new SMTPServer({
        authOptional: true,
        disabledCommands: [],
        onData: (stream, session, done) => {
          const chunks: Array<Buffer> = []
          stream.on("data", (chunk: Buffer) => chunks.push(chunk))
          stream.on("end", () => {
            const { mailFrom, rcptTo } = session.envelope
            taken.push({
              from: mailFrom === false ? "" : mailFrom.address,
              to: rcptTo.map((one) => one.address),
              text: Buffer.concat(chunks).toString("utf8"),
            })
            done()
          })
        },
        ...options,
      })
      // A client that turns away from a certificate is no fault of the server.
      server.on("error", () => {})
      await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
      return { server, taken, port: (server.server.address() as AddressInfo).port }
    }),
    ({ server }) => Effect.promise(() => new Promise<void>((resolve) => server.close(() => resolve()))),
  )

/** Takes connections and does `talk` with them. */
const tcpServer = (talk: (socket: Socket) => void) =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(() =>
        new Promise<{ readonly server: Server; readonly sockets: Set<Socket> }>((resolve) => {
          const sockets = new Set<Socket>()
          const server = createServer((socket) => {
            sockets.add(socket)
            socket.on("error", () => {})
            talk(socket)
          })
          server.listen(0, "127.0.0.1", () => resolve({ server, sockets }))
        })
      ),
      ({ server, sockets }) =>
        Effect.promise(() =>
          new Promise<void>((resolve) => {
            for (const socket of sockets) socket.destroy()
            server.close(() =>
              resolve()
            )
          })
        ),
    ),
    ({ server }) => (server.address() as AddressInfo).port,
  )

const at = (port: number, more: Partial<MailServer> = {}): MailServer => ({
  host: "127.0.0.1",
  port,
  security: "none",
  username: null,
  password: null,
  from: "nvr@example.test",
  caCertificate: null,
  allowUnverified: false,
  ...more,
})

const mail = { to: ["guard@example.test"], subject: "Überwachung", text: "Motion at the gate" }
const failureOf = (work: Effect.Effect<void, MailFailed>) => Effect.flip(work)
const live = it.live

const starttls = { secure: false, key: own.privateKey, cert: own.certificate } satisfies SMTPServerOptions
const withLogin = {
  ...starttls,
  authOptional: false,
  onAuth: (auth, _session, done) =>
    auth.username === "nvr" && auth.password === "right" ?
      done(null, { user: "nvr" }) :
      done(new Error("Invalid username or password")),
} satisfies SMTPServerOptions
const trusting = { security: "starttls", caCertificate: own.certificate } as const

describe("a mail", () => {
  live("is taken with its text, page and picture", () =>
    Effect.gen(function*() {
      const { port, taken } = yield* mailServer({ hideSTARTTLS: true })
      yield* sendMail(at(port), {
        ...mail,
        to: ["guard@example.test", "chief@example.test"],
        html: "<p>Motion <img src=\"cid:picture\"></p>",
        attachments: [{
          filename: "gate.jpg",
          contentType: "image/jpeg",
          content: new Uint8Array([0xff, 0xd8]),
          contentId: "picture",
        }],
      }, limits)
      assert.deepStrictEqual(taken.map(({ from, to }) => ({ from, to })), [
        { from: "nvr@example.test", to: ["guard@example.test", "chief@example.test"] },
      ])
      const text = taken[0]!.text
      assert.match(text, /^Subject: =\?UTF-8\?/m)
      assert.match(text, /^Auto-Submitted: auto-generated/m)
      assert.match(text, /Content-Id: <picture>/i)
      assert.include(text, Buffer.from([0xff, 0xd8]).toString("base64"))
    }))

  live("cannot smuggle headers or recipients in by its subject", () =>
    Effect.gen(function*() {
      const { port, taken } = yield* mailServer({ hideSTARTTLS: true })
      yield* sendMail(at(port), { ...mail, subject: "A\r\nBcc: spy@example.test\r\n\r\nbody" }, limits)
      assert.deepStrictEqual(taken[0]!.to, mail.to)
      assert.notMatch(taken[0]!.text, /^Bcc:/m)
    }))

  live("reads no file, whatever its text says", () =>
    Effect.gen(function*() {
      const { port, taken } = yield* mailServer({ hideSTARTTLS: true })
      const html = "<img src=\"file:///etc/passwd\">"
      yield* sendMail(at(port), { ...mail, html }, limits)
      assert.notInclude(taken[0]!.text, Buffer.from("root:").toString("base64").slice(0, 6))
    }))

  live("goes encrypted and signed in", () =>
    Effect.gen(function*() {
      const { port, taken } = yield* mailServer(withLogin)
      yield* sendMail(at(port, { ...trusting, username: "nvr", password: Redacted.make("right") }), mail, limits)
      assert.strictEqual(taken.length, 1)
      const direct = yield* mailServer({ ...withLogin, secure: true })
      yield* checkServer(
        at(direct.port, { ...trusting, security: "tls", username: "nvr", password: Redacted.make("right") }),
        limits,
      )
    }))
})

describe("failures are told apart:", () => {
  live("nobody listens", () =>
    Effect.gen(function*() {
      const port = yield* Effect.scoped(tcpServer(() => {}))
      const failure = yield* failureOf(sendMail(at(port), mail, limits))
      assert.deepStrictEqual([failure.reason, failure.retryable], ["refused", true])
      const unknown = yield* failureOf(checkServer(at(25, { host: "no-such-host.invalid" }), limits))
      assert.strictEqual(unknown.reason, "refused")
    }))

  live("the server cuts the connection", () =>
    Effect.gen(function*() {
      const port = yield* tcpServer((socket) => socket.destroy())
      assert.strictEqual((yield* failureOf(checkServer(at(port), limits))).reason, "refused")
    }))

  live("the server says nothing, or stops in the middle", () =>
    Effect.gen(function*() {
      const silent = yield* tcpServer(() => {})
      assert.strictEqual((yield* failureOf(checkServer(at(silent), limits))).reason, "timeout")
      const stuck = yield* tcpServer((socket) => socket.write("220 mail ESMTP\r\n"))
      const failure = yield* failureOf(sendMail(at(stuck), mail, limits))
      assert.deepStrictEqual([failure.reason, failure.retryable], ["timeout", true])
      // One that trickles keeps every single limit and breaks that of the whole.
      const trickling = yield* tcpServer((socket) => {
        socket.write("220 mail\r\n")
        const timer = setInterval(() => socket.write("250-more\r\n"), 50)
        socket.on("close", () => clearInterval(timer))
      })
      const endless = yield* failureOf(sendMail(at(trickling), mail, { ...limits, longestMs: 1_500 }))
      assert.deepStrictEqual([endless.reason, /did not finish/.test(endless.detail)], ["timeout", true])
    }))

  live("certificates of strangers, of other names, and expired ones", () =>
    Effect.gen(function*() {
      const good = yield* mailServer(starttls)
      const stranger = yield* failureOf(sendMail(at(good.port, { security: "starttls" }), mail, limits))
      assert.deepStrictEqual([stranger.reason, stranger.retryable], ["tls", false])
      assert.match(stranger.detail, /self-signed/)
      const misnamed = yield* mailServer({ secure: false, key: other.privateKey, cert: other.certificate })
      const wrongName = { security: "starttls", caCertificate: other.certificate } as const
      assert.match((yield* failureOf(checkServer(at(misnamed.port, wrongName), limits))).detail, /altnames|IP/)
      const old = yield* mailServer({ secure: true, key: expired.privateKey, cert: expired.certificate })
      const outdated = { security: "tls", caCertificate: expired.certificate } as const
      const failure = yield* failureOf(checkServer(at(old.port, outdated), limits))
      assert.deepStrictEqual([failure.reason, /expired/.test(failure.detail)], ["tls", true])
      assert.deepStrictEqual([good.taken.length, misnamed.taken.length, old.taken.length], [0, 0, 0])
      yield* sendMail(at(good.port, { security: "starttls", allowUnverified: true }), mail, limits)
      assert.strictEqual(good.taken.length, 1)
    }))

  live("no encryption where it was asked for", () =>
    Effect.gen(function*() {
      const plain = yield* mailServer({ hideSTARTTLS: true, disabledCommands: ["STARTTLS"] })
      assert.strictEqual((yield* failureOf(sendMail(at(plain.port, trusting), mail, limits))).reason, "tls")
      const direct = yield* failureOf(checkServer(at(plain.port, { ...trusting, security: "tls" }), limits))
      assert.strictEqual(direct.reason, "tls")
      assert.strictEqual(plain.taken.length, 0)
    }))

  live("a wrong password", () =>
    Effect.gen(function*() {
      const { port, taken } = yield* mailServer(withLogin)
      const wrong = { ...trusting, username: "nvr", password: Redacted.make("wrong-secret") }
      const failure = yield* failureOf(checkServer(at(port, wrong), limits))
      assert.deepStrictEqual([failure.reason, failure.retryable], ["login", false])
      assert.notInclude(failure.detail, "wrong-secret")
      assert.strictEqual((yield* failureOf(sendMail(at(port, wrong), mail, limits))).reason, "login")
      assert.strictEqual(taken.length, 0)
    }))

  live("recipients and messages that are not taken", () =>
    Effect.gen(function*() {
      const picky = yield* mailServer({
        hideSTARTTLS: true,
        onRcptTo: ({ address }, _session, done) =>
          address.startsWith("chief") ?
            done() :
            done(Object.assign(new Error("no such user"), { responseCode: address.startsWith("full") ? 452 : 550 })),
      })
      const unknown = yield* failureOf(sendMail(at(picky.port), mail, limits))
      assert.deepStrictEqual([unknown.reason, unknown.retryable], ["rejected", false])
      const full = yield* failureOf(sendMail(at(picky.port), { ...mail, to: ["full@example.test"] }, limits))
      assert.deepStrictEqual([full.reason, full.retryable], ["rejected", true])
      const both = { ...mail, to: ["chief@example.test", "guard@example.test"] }
      const partly = yield* failureOf(sendMail(at(picky.port), both, limits))
      assert.deepStrictEqual([partly.reason, partly.retryable], ["rejected", false])
      assert.match(partly.detail, /not for guard@example\.test/)
    }))
})

it("addresses and settings with anything that could end a command are not taken", () => {
  const address = Schema.decodeUnknownOption(MailAddress)
  assert.strictEqual(address("guard@example.test")._tag, "Some")
  for (
    const bad of [
      "a@b\r\nRCPT TO:<c@d>",
      "a b@c",
      "<a@b>",
      "a@b,c@d",
      "@b",
      "a@",
      "a@b@c",
      "\"x y\"@z",
      `${"a".repeat(65)}@b`,
    ]
  ) {
    assert.strictEqual(address(bad)._tag, "None", bad)
  }
  const settings = Schema.decodeUnknownOption(SmtpSettingsUpdate)
  const good = { host: "mail.test", port: 587, security: "starttls", from: "nvr@example.test" }
  assert.strictEqual(settings(good)._tag, "Some")
  for (const bad of [{ host: "a b" }, { host: "a\r\n" }, { port: 0 }, { username: "a\nb" }, { caCertificate: "x" }]) {
    assert.strictEqual(settings({ ...good, ...bad })._tag, "None", JSON.stringify(bad))
  }
})
