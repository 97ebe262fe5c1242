/** Popup rules without a database: when a rule applies, and what each channel really sends. */
import type { ChannelDoors, ChannelMessage } from "#actors/channels/channel.ts"
import { sendMail } from "#actors/channels/email.ts"
import { momentFor } from "#actors/channels/notice-mail.ts"
import { channels } from "#actors/channels/registry.ts"
import { CameraId, NodeId } from "#schema/common.ts"
import type { EventDraft, StoredEvent } from "#schema/event.ts"
import { PopupRuleId, PopupRuleInput, type RuleFilter, RuleSchedule, weekdays } from "#schema/notification-rules.ts"
import { isScheduled, passes } from "#schema/notification-schedule.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted, Schema } from "effect"
import { decodeJwt, decodeProtectedHeader, importJWK, jwtVerify } from "jose"
import type { AddressInfo } from "node:net"
import { SMTPServer } from "smtp-server"
import { Webhook } from "standardwebhooks"
import webpush from "web-push"
import { browser, receiver, webhookSignature } from "./notification-receiver.ts"

const nodeId = NodeId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a01")
const front = CameraId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a02")

describe("the schedule of a rule", () => {
  const zones = [
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/Sao_Paulo",
    "Asia/Kathmandu",
    "UTC",
  ] as const
  const quarter = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 95 }))
  const text = (n: number) => `${String(Math.floor(n / 4)).padStart(2, "0")}:${String((n % 4) * 15).padStart(2, "0")}`

  /** The same question put to Temporal: is there a day of the window whose clocks show this time inside of it. */
  const naive = (schedule: RuleSchedule, atMs: number): boolean => {
    const now = Temporal.Instant.fromEpochMilliseconds(atMs).toZonedDateTimeISO(schedule.timeZone)
    const at = now.hour * 60 + now.minute
    const minutes = (time: string) => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))
    return schedule.windows.some(({ days, end, start }) =>
      days.some((day) => {
        const ofDay = weekdays.indexOf(day) + 1
        const [from, to] = [minutes(start), minutes(end)]
        const sameDay = now.dayOfWeek === ofDay
        const nextDay = now.toPlainDate().subtract({ days: 1 }).dayOfWeek === ofDay
        return to > from ? sameDay && at >= from && at < to : (sameDay && at >= from) || (nextDay && at < to)
      })
    )
  }

  it.prop("agrees with Temporal at any minute, also where clocks are put forward and back", [
    Schema.Literals(zones),
    Schema.Array(Schema.Tuple([Schema.Literals(weekdays), quarter, quarter])).check(
      Schema.isMinLength(1),
      Schema.isMaxLength(3),
    ),
    // Around each change of 2026 in one of these zones, and any minute of five years.
    Schema.Literals(["2026-03-08", "2026-03-29", "2026-04-04", "2026-10-03", "2026-10-25", "2026-11-01", "2024-01-01"]),
    Schema.Int.check(Schema.isBetween({ minimum: -3000, maximum: 3000 })),
  ], ([timeZone, drawn, day, minute]) => {
    const schedule: RuleSchedule = {
      timeZone,
      windows: drawn.map(([day, start, end]) => ({ days: [day], start: text(start), end: text(end) })),
    }
    const atMs = Date.parse(`${day}T00:00:00Z`) + minute * 60_000
    assert.strictEqual(isScheduled(schedule, atMs), naive(schedule, atMs))
  }, { arbitrary: { runs: 1500 } })

  it("counts the hour that comes twice twice, and the one that is left out never", () => {
    const hour = (start: string, end: string): RuleSchedule => ({
      timeZone: "Europe/Berlin",
      windows: [{ days: ["sunday"], start, end }],
    })
    const covered = (schedule: RuleSchedule, day: string) => {
      const from = Date.parse(`${day}T00:00:00+01:00`) - 3_600_000
      return Array.from({ length: 27 * 60 }, (_, n) => isScheduled(schedule, from + n * 60_000)).filter(Boolean).length
    }
    assert.strictEqual(covered(hour("02:00", "03:00"), "2026-10-25"), 120)
    assert.strictEqual(covered(hour("02:00", "03:00"), "2026-03-29"), 0)
    assert.strictEqual(covered(hour("01:00", "03:00"), "2026-03-29"), 60)
    assert.strictEqual(covered(hour("00:00", "24:00"), "2026-03-29"), 23 * 60)
    assert.strictEqual(covered(hour("00:00", "24:00"), "2026-10-25"), 25 * 60)
  })

  it("takes no zone, day or time that there is not", () => {
    const decode = Schema.decodeUnknownExit(RuleSchedule)
    const window = { days: ["monday"], start: "08:00", end: "24:00" }
    const good = { timeZone: "Europe/Berlin", windows: [window] }
    assert.strictEqual(decode(good)._tag, "Success")
    for (
      const bad of [
        { ...good, timeZone: "Mars/Olympus" },
        { ...good, windows: [] },
        { ...good, windows: [{ ...window, start: "24:00" }] },
        { ...good, windows: [{ ...window, end: "25:00" }] },
        { ...good, windows: [{ ...window, days: ["someday"] }] },
      ]
    ) assert.strictEqual(decode(bad)._tag, "Failure", JSON.stringify(bad))
  })
})

const stored = (
  type: string,
  severity: "info" | "warning" | "critical",
  resource: StoredEvent["resource"],
): StoredEvent => ({
  position: 7,
  event: {
    id: "e-1",
    source: `/nodes/${nodeId}/camera`,
    type,
    time: Date.parse("2026-11-21T12:00:00Z"),
    subject: front,
    data: { name: "Front door", reason: "no answer" },
    nodeId,
    severity,
  },
  resource,
  audience: null,
})

describe("the filter of a rule", () => {
  const all: RuleFilter = { types: [], minimumSeverity: "info", cameras: [], resourceGroups: [] }
  it("asks for type, severity and place, all of them", () => {
    const event = stored("camera.offline", "warning", [{ kind: "channel", id: "c1" }, { kind: "camera", id: front }])
    const cases: ReadonlyArray<readonly [Partial<RuleFilter>, ReadonlySet<string> | null, boolean]> = [
      [{}, null, true],
      [{ types: ["camera.offline"] }, null, true],
      [{ types: ["node.started", "camera.*"] }, null, true],
      [{ types: ["camera.off.*"] }, null, false],
      [{ types: ["cam.*"] }, null, false],
      [{ types: ["camera.online"] }, null, false],
      [{ minimumSeverity: "warning" }, null, true],
      [{ minimumSeverity: "critical" }, null, false],
      [{}, new Set([`camera:${front}`]), true],
      [{}, new Set(["channel:c1"]), true],
      [{}, new Set(["camera:other"]), false],
      [{}, new Set(), false],
      [{ types: ["camera.*"], minimumSeverity: "critical" }, new Set([`camera:${front}`]), false],
    ]
    for (const [filter, within, expected] of cases) {
      assert.strictEqual(passes({ ...all, ...filter }, within, event), expected, JSON.stringify(filter))
    }
    // What happened nowhere in particular is in no camera.
    assert.isFalse(passes(all, new Set([`camera:${front}`]), stored("node.started", "info", [])))
  })

  it("takes a webhook's address once, without a name in it, and no unknown channel", () => {
    const decode = Schema.decodeUnknownExit(PopupRuleInput)
    const rule = (...channels: ReadonlyArray<unknown>) => decode({ name: "x", channels })._tag
    const hook = { kind: "webhook", url: "https://hooks.example/a" }
    assert.strictEqual(rule(hook, { ...hook, url: "http://192.168.1.5/b" }, { kind: "inApp" }), "Success")
    assert.strictEqual(rule(hook, hook), "Failure")
    assert.strictEqual(rule({ kind: "inApp" }, { kind: "inApp" }), "Failure")
    assert.strictEqual(rule({ ...hook, url: "https://user:pass@hooks.example/" }), "Failure")
    assert.strictEqual(rule({ ...hook, url: "file:///etc/passwd" }), "Failure")
    assert.strictEqual(rule({ ...hook, secret: "short" }), "Failure")
    assert.strictEqual(rule({ kind: "pigeon" }), "Failure")
    assert.strictEqual(rule(), "Failure")
  })
})

const { event, resource } = stored("camera.offline", "critical", [{ kind: "camera", id: front }])
const message: ChannelMessage = {
  deliveryId: "0190163d-8694-7395-8ad4-5b8a3f3d0a09",
  targetId: "target",
  event: { ...event, time: new Date(event.time).toISOString() },
  resource,
  popup: {
    ruleId: PopupRuleId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a08"),
    rule: "Night",
    sound: "alarm",
    colour: "#ff0000",
    title: "Camera offline",
    text: "Front door: no answer",
    test: false,
  },
  attachPicture: false,
  audience: ["0190163d-8694-7395-8ad4-5b8a3f3d0a07"],
}

const absent: ChannelDoors = {
  mail: () => Effect.die("nobody sends mail here"),
  publish: () => Effect.die("nobody publishes here"),
  reader: () => Effect.succeed(null),
  picture: () => Effect.succeed(null),
  webhook: () => Effect.succeed(null),
  subscription: () => Effect.succeed(null),
  pushNetwork: "any",
  timeoutMs: 2_000,
}

describe("a webhook", () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`
  const target = (url: string, disabled = false): ChannelDoors => ({
    ...absent,
    webhook: () => Effect.succeed({ url, secret: Redacted.make(secret), disabled }),
  })

  it.live("is signed so that the specification's own library and a hand-made one agree", () =>
    Effect.gen(function*() {
      const { came, url } = yield* receiver
      const sent = yield* channels.webhook.send(message, target(`${url}/hook?x=1`))
      assert.deepStrictEqual(sent, { outcome: "delivered", detail: "status 200" })
      const [one] = came
      assert.strictEqual(one!.path, "/hook?x=1")
      const headers = one!.headers as Record<string, string>
      const body = new Webhook(secret).verify(one!.body, headers) as Record<string, Record<string, unknown>>
      assert.strictEqual(headers["webhook-signature"], webhookSignature(secret, one!))
      assert.strictEqual(headers["webhook-id"], `msg_${message.deliveryId}`)
      assert.strictEqual(body["type"] as unknown, "camera.offline")
      assert.deepInclude(body["data"]!["event"] as object, {
        id: "e-1",
        time: "2026-11-21T12:00:00.000Z",
        subject: front,
      })
      assert.deepInclude(body["data"]!["popup"] as object, { rule: "Night", text: "Front door: no answer" })
      const forged = Buffer.from(one!.body.toString().replace("Night", "Light"))
      assert.throws(() => new Webhook(secret).verify(forged, headers))
      assert.throws(() => new Webhook(`whsec_${Buffer.alloc(32, 8).toString("base64")}`).verify(one!.body, headers))
    }).pipe(Effect.scoped))

  it.live("tells trouble that passes from what is for good", () =>
    Effect.gen(function*() {
      const { answers, came, url } = yield* receiver
      const ask = (answer: (typeof answers)[number]) => {
        answers.push(answer)
        return channels.webhook.send(message, target(url))
      }
      assert.deepInclude(yield* ask({ status: 500, body: "line one\r\nline two" }), {
        outcome: "failed",
        detail: "status 500 line one line two",
      })
      assert.strictEqual((yield* ask({ status: 302, headers: { location: `${url}/elsewhere` } })).outcome, "failed")
      assert.isFalse(came.some(({ path }) => path === "/elsewhere"))
      assert.deepInclude(yield* ask({ status: 429, headers: { "retry-after": "120" } }), { retryAfterMs: 120_000 })
      assert.deepInclude(yield* ask({ status: 503, headers: { "retry-after": "99999999" } }), {
        retryAfterMs: 86_400_000,
      })
      assert.strictEqual((yield* ask({ status: 410 })).outcome, "gone")
      const heard = came.length
      assert.strictEqual((yield* channels.webhook.send(message, target(url, true))).outcome, "rejected")
      assert.strictEqual((yield* channels.webhook.send(message, absent)).outcome, "rejected")
      assert.strictEqual(came.length, heard)
      assert.strictEqual((yield* channels.webhook.send(message, target("http://127.0.0.1:1/"))).outcome, "failed")
      const metadata = yield* channels.webhook.send(message, target("http://169.254.169.254/latest/meta-data"))
      assert.strictEqual(metadata.outcome, "rejected")
    }).pipe(Effect.scoped))
})

describe("a push message", () => {
  it.live("opens in the browser it was made for, and is signed for the push service", () =>
    Effect.gen(function*() {
      const { answers, came, url } = yield* receiver
      const page = browser()
      const { privateKey, publicKey } = webpush.generateVAPIDKeys()
      const doors: ChannelDoors = {
        ...absent,
        subscription: () =>
          Effect.succeed({
            endpoint: `${url}/push/secret`,
            keys: page.keys,
            vapid: { publicKey, privateKey: Redacted.make(privateKey), subject: "mailto:ops@example.com" },
          }),
      }
      assert.strictEqual((yield* channels.webPush.send(message, doors)).outcome, "delivered")
      const [one] = came
      assert.deepInclude(one!.headers, { "content-encoding": "aes128gcm", ttl: "86400", urgency: "high" })
      const opened = JSON.parse(page.decrypt(one!.body)) as Record<string, object>
      assert.deepInclude(opened["popup"]!, { title: "Camera offline", text: "Front door: no answer", sound: "alarm" })
      assert.deepInclude(opened["event"]!, { id: "e-1", type: "camera.offline" })
      assert.throws(() => browser().decrypt(one!.body))
      const [, token, key] = /^vapid t=([^,]+), ?k=(.+)$/.exec(String(one!.headers.authorization))!
      assert.strictEqual(key, publicKey)
      assert.strictEqual(decodeProtectedHeader(token!).alg, "ES256")
      const point = Buffer.from(publicKey, "base64url")
      const jwk = {
        kty: "EC",
        crv: "P-256",
        x: point.subarray(1, 33).toString("base64url"),
        y: point.subarray(33).toString("base64url"),
      }
      yield* Effect.promise(async () => jwtVerify(token!, await importJWK(jwk, "ES256"), { audience: url }))
      assert.strictEqual(decodeJwt(token!).sub, "mailto:ops@example.com")
      for (
        const [status, outcome] of [[404, "gone"], [410, "gone"], [400, "rejected"], [429, "failed"], [
          500,
          "failed",
        ]] as const
      ) {
        answers.push({ status })
        assert.strictEqual((yield* channels.webPush.send(message, doors)).outcome, outcome)
      }
      // A user names the address: it must not lead into the house.
      const inside = yield* channels.webPush.send(message, { ...doors, pushNetwork: "internet" })
      assert.deepInclude(inside, { outcome: "rejected" })
      // A text that is too long is cut, not refused.
      const long = { ...message, popup: { ...message.popup, text: "x".repeat(5000) } }
      assert.strictEqual((yield* channels.webPush.send(long, doors)).outcome, "delivered")
      assert.isBelow(came.at(-1)!.body.length, 4096)
    }).pipe(Effect.scoped))
})

describe("an e-mail", () => {
  it.live("carries the text and the picture to a real server, and says whether trying again makes sense", () =>
    Effect.gen(function*() {
      const taken: Array<string> = []
      let refuse = false
      const server = new SMTPServer({
        authOptional: true,
        disabledCommands: ["STARTTLS"],
        onRcptTo: (_address, _session, done) =>
          done(refuse ? Object.assign(new Error("nobody here"), { responseCode: 550 }) : null),
        onData: (stream, _session, done) => {
          const chunks: Array<Buffer> = []
          stream.on("data", (chunk: Buffer) => chunks.push(chunk))
          stream.on("end", () => {
            taken.push(Buffer.concat(chunks).toString("utf8"))
            done()
          })
        },
      })
      yield* Effect.acquireRelease(
        Effect.promise(() => new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve))),
        () => Effect.promise(() => new Promise<void>((resolve) => server.close(() => resolve()))),
      )
      const settings = {
        host: "127.0.0.1",
        port: (server.server.address() as AddressInfo).port,
        security: "none" as const,
        username: null,
        password: null,
        from: "nightjar@example.com",
        caCertificate: null,
        allowUnverified: false,
      }
      const picture = Buffer.from("not really a picture")
      const doors: ChannelDoors = {
        ...absent,
        mail: (mail) => sendMail(settings, mail),
        reader: (id) =>
          Effect.succeed(id === "target" ? { address: "ann@example.com", locale: "de", timeZone: "Asia/Seoul" } : null),
        picture: () => Effect.succeed({ filename: "front.mp4", contentType: "video/mp4", content: picture }),
      }
      const sent = yield* channels.email.send({ ...message, attachPicture: true }, doors)
      assert.deepStrictEqual(sent, { outcome: "delivered", detail: "taken, with front.mp4" })
      assert.include(taken[0]!, "To: ann@example.com")
      assert.include(taken[0]!, "Subject: Camera offline: Front door: no answer")
      assert.include(taken[0]!, picture.toString("base64"))
      assert.strictEqual((yield* channels.email.send(message, doors)).detail, "taken")
      assert.notInclude(taken[1]!, "front.mp4")
      const none = yield* channels.email.send({ ...message, attachPicture: true }, {
        ...doors,
        picture: absent.picture,
      })
      assert.strictEqual(none.outcome, "delivered")
      assert.include(taken[2]!, "There was no picture to attach.")
      refuse = true
      assert.strictEqual((yield* channels.email.send(message, doors)).outcome, "rejected")
      assert.strictEqual((yield* channels.email.send({ ...message, targetId: "x" }, doors)).outcome, "rejected")
      const away = {
        ...doors,
        mail: (mail: Parameters<ChannelDoors["mail"]>[0]) => sendMail({ ...settings, port: 1 }, mail),
      }
      assert.strictEqual((yield* channels.email.send(message, away)).outcome, "failed")
    }).pipe(Effect.scoped))
})

describe("a moment in a mail", () => {
  it("is the reader's own, and still one where the settings are no good", () => {
    const at = "2026-01-31T20:15:30.000Z"
    assert.strictEqual(momentFor({ locale: "de", timeZone: "Asia/Seoul" }, at), "01.02.2026, 05:15:30 GMT+9")
    assert.strictEqual(momentFor({ locale: null, timeZone: null }, at), "31 Jan 2026, 20:15:30 UTC")
    assert.strictEqual(momentFor({ locale: "de", timeZone: "Moon/Crater" }, at), "31 Jan 2026, 20:15:30 UTC")
  })
})

describe("a popup", () => {
  it.effect("is an event for its recipients alone, the same however often it is told", () =>
    Effect.gen(function*() {
      const drafts: Array<EventDraft> = []
      const doors = { ...absent, publish: (draft: EventDraft) => Effect.sync(() => void drafts.push(draft)) }
      yield* channels.inApp.send(message, doors)
      yield* channels.inApp.send(message, doors)
      assert.deepStrictEqual(drafts[0], drafts[1])
      assert.deepInclude(drafts[0]!, { type: "popup.raised", severity: "critical", id: `popup:${message.deliveryId}` })
      assert.deepStrictEqual(drafts[0]!.audience as unknown, message.audience)
      assert.deepInclude(drafts[0]!.data, { sound: "alarm", colour: "#ff0000", eventId: "e-1", test: false })
    }))
})
