/** RTSP messages, addresses, authentication and the cutting of a connection's bytes. */
import { Malformed } from "#media/codec/malformed.ts"
import { authorization, parseChallenges, strongest } from "#media/rtsp/auth.ts"
import { Framer, maxBodyBytes, maxGarbageBytes } from "#media/rtsp/framer.ts"
import { formatRequest, header, headerValues, parseHead, parseSession, parseTransport } from "#media/rtsp/message.ts"
import { baseUrl, controlUrl, parseRtspUrl, withoutSecrets } from "#media/rtsp/url.ts"
import { assert, describe, it } from "@effect/vitest"

describe("addresses", () => {
  it.each(
    [
      ["rtsp://cam", "cam", 554, "/", "rtsp://cam/"],
      ["RTSP://cam:8554/a/b?x=1&y=2", "cam", 8554, "/a/b", "rtsp://cam:8554/a/b?x=1&y=2"],
      ["rtsp://u:p@cam/live#frag", "cam", 554, "/live", "rtsp://cam/live"],
      ["rtsp://u:p@ss@cam/live", "cam", 554, "/live", "rtsp://cam/live"],
      ["rtsp://[fe80::1]:554/x", "fe80::1", 554, "/x", "rtsp://[fe80::1]:554/x"],
      ["rtsp://cam?channel=1", "cam", 554, "/", "rtsp://cam?channel=1"],
      ["rtsp://cam/ä b%20c", "cam", 554, "/%C3%A4%20b%20c", "rtsp://cam/%C3%A4%20b%20c"],
    ] as const,
  )("%s", (text, host, port, path, line) => {
    const url = parseRtspUrl(text)
    assert.deepStrictEqual([url.host, url.port, url.path, url.text], [host, port, path, line])
  })

  it.each([
    "http://cam/",
    "rtsp://",
    "rtsp://cam:0/",
    "rtsp://cam:99999/",
    "rtsps://cam/",
    "cam",
    `rtsp://cam/${"x".repeat(5000)}`,
  ])("refuses %s", (text) => {
    assert.throws(() => parseRtspUrl(text), Malformed)
  })

  it("never quotes a secret", () => {
    const line = withoutSecrets("DESCRIBE rtsp://admin:hunter2@cam/x?token=abc was bad\r\n")
    assert.notMatch(line, /hunter2|abc|admin/)
  })

  const asked = parseRtspUrl("rtsp://cam:8554/live?x=1")
  it.each(
    [
      ["Content-Base", "rtsp://cam:8554/live/", "trackID=1", "rtsp://cam:8554/live/trackID=1"],
      ["no base", null, "trackID=1", "rtsp://cam:8554/live?x=1/trackID=1"],
      ["empty base", " ", "trackID=1", "rtsp://cam:8554/live?x=1/trackID=1"],
      ["path as base", "/live/", "track1", "rtsp://cam:8554/live/track1"],
      ["absolute control", "rtsp://cam/live/", "rtsp://10.0.0.9/live/1", "rtsp://10.0.0.9/live/1"],
      ["absolute control with credentials", null, "rtsp://u:p@cam/1", "rtsp://cam/1"],
      ["query as control", "rtsp://cam/live", "?ctype=video", "rtsp://cam/live?ctype=video"],
      ["slash on both sides", "rtsp://cam/live/", "/track1", "rtsp://cam/live/track1"],
      ["no control", "rtsp://cam/live/", "", "rtsp://cam/live/"],
      ["aggregate", "rtsp://cam/live/", "*", "rtsp://cam/live/"],
    ] as const,
  )("control address: %s", (_, base, control, expected) => {
    assert.strictEqual(controlUrl(baseUrl(asked, base), control), expected)
  })
})

describe("messages", () => {
  it("are read leniently", () => {
    const head = parseHead(
      "RTSP/1.0  200\tOK\ncseq:7\nSESSION : 12; timeout = 30\nwww-authenticate: Digest a=1\nWWW-Authenticate: Basic\nfolded: a\n b\nno colon",
    )!
    assert.strictEqual(head.kind === "response" ? head.status : 0, 200)
    assert.strictEqual(header(head, "cseq"), "7")
    assert.deepStrictEqual(parseSession(header(head, "session")!), { id: "12", timeoutSeconds: 30 })
    assert.strictEqual(headerValues(head, "www-authenticate").length, 2)
    assert.strictEqual(header(head, "folded"), "a b")
    assert.deepStrictEqual(parseSession("abc"), { id: "abc", timeoutSeconds: null })
    assert.deepStrictEqual(parseSession("abc;timeout=0"), { id: "abc", timeoutSeconds: null })
  })

  it("of the camera's own are known", () => {
    const head = parseHead("OPTIONS rtsp://nvr/ RTSP/1.0\r\nCSeq: 1")
    assert.deepStrictEqual(head?.kind === "request" ? [head.method, head.url] : [], ["OPTIONS", "rtsp://nvr/"])
    assert.isNull(parseHead("HTTP/1.1 200 OK"))
    assert.isNull(parseHead(""))
  })

  it("cannot be broken out of by what they carry", () => {
    const text = formatRequest("DESCRIBE", "rtsp://cam/\r\nX: 1", [["A", "b\r\nC: d"]]).toString()
    assert.strictEqual(text, "DESCRIBE rtsp://cam/  X: 1 RTSP/1.0\r\nA: b  C: d\r\n\r\n")
  })

  it.each(
    [
      ["RTP/AVP/TCP;unicast;interleaved=2-3;ssrc=AB", [2, 3], null, null],
      ["RTP/AVP/TCP; interleaved=4", [4, 5], null, null],
      ["RTP/AVP;unicast;client_port=5000-5001;server_port=6970-6971;source=10.0.0.9", null, [6970, 6971], "10.0.0.9"],
      ["RTP/AVP;interleaved=300-301", null, null, null],
      ["garbage", null, null, null],
    ] as const,
  )("transport %s", (text, interleaved, serverPort, source) => {
    assert.deepStrictEqual(parseTransport(text), { interleaved, serverPort, source } as never)
  })
})

describe("authentication", () => {
  /** RFC 7616, section 3.9.1. */
  const rfc = [
    "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=SHA-256, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
    "Digest realm=\"http-auth@example.org\", qop=\"auth, auth-int\", algorithm=MD5, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\"",
  ]
  const credentials = { username: "Mufasa", password: "Circle of Life" }
  const request = {
    method: "GET",
    url: "/dir/index.html",
    count: 1,
    cnonce: "f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ",
  }

  it("answers as RFC 7616 does", () => {
    const [sha, md5] = parseChallenges(rfc)
    assert.match(
      authorization(sha!, credentials, request),
      /response="753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1".*algorithm=SHA-256, qop=auth, nc=00000001/,
    )
    assert.match(authorization(md5!, credentials, request), /response="8ca523f5e9506fed4657c9700eebdbec"/)
  })

  it("answers as RFC 2069 does where the camera names no qop", () => {
    // RFC 2069, section 2.4, with the erratum's response.
    const [challenge] = parseChallenges([
      "Digest realm=\"testrealm@host.com\", nonce=\"dcd98b7102dd2f0e8b11d0f600bfb0c093\"",
    ])
    const value = authorization(challenge!, { username: "Mufasa", password: "CircleOfLife" }, request)
    assert.match(value, /response="1949323746fe6a43ef61f9606e7febea"/)
    assert.notMatch(value, /qop|cnonce|algorithm|opaque/)
  })

  it("takes the strongest of what is offered, in one header or several", () => {
    const one = parseChallenges([
      "Basic realm=\"a, b\", Digest realm=\"x\\\"y\", nonce=n1 , qop=auth,Digest algorithm=SHA-256,nonce=n2",
    ])
    assert.deepStrictEqual(one.map(({ scheme }) => scheme), ["basic", "digest", "digest"])
    assert.strictEqual(strongest(one), one[2]!)
    assert.strictEqual(one[1]!.realm, "x\"y")
    assert.strictEqual(strongest(parseChallenges(rfc.toReversed()))?.scheme, "digest")
    assert.isNull(
      strongest(parseChallenges(["Negotiate abc", "Digest realm=\"no nonce\"", "Digest nonce=a, algorithm=SHA-512"])),
    )
  })

  it("Basic carries both in UTF-8", () => {
    const value = authorization({ scheme: "basic", realm: "" }, { username: "ä", password: "b:c" }, request)
    assert.strictEqual(value, `Basic ${Buffer.from("ä:b:c").toString("base64")}`)
  })

  it("quotes what needs it", () => {
    const [challenge] = parseChallenges(["Digest realm=\"a\", nonce=\"n\", stale=TRUE"])
    assert.include(authorization(challenge!, { username: "a\"b\\", password: "" }, request), "username=\"a\\\"b\\\\\"")
    assert.isTrue(challenge?.scheme === "digest" && challenge.stale)
  })
})

describe("Framer", () => {
  const make = () => {
    const got: Array<string> = []
    const framer = new Framer({
      onPacket: (channel, bytes, from, to) => got.push(`${channel}:${bytes.toString("latin1", from, to)}`),
      onMessage: ({ body, head }) =>
        got.push(`${head.kind === "response" ? head.status : head.method}/${body.toString()}`),
    })
    const feed = (text: string) => {
      const bytes = Buffer.from(text, "latin1")
      framer.feed(bytes, bytes.length)
      return got
    }
    return { feed, framer, got }
  }
  const packet = (channel: number, payload: string) =>
    `$${String.fromCharCode(channel, payload.length >> 8, payload.length & 255)}${payload}`
  const rtp = `\x80payload of RTP`

  it("tells packets and messages apart, however they are mixed", () => {
    const { feed } = make()
    const got = feed(
      `RTSP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nbody${packet(0, rtp)}\r\n${
        packet(1, rtp)
      }OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n${packet(2, "")}rtsp/1.0 404 No\n\n`,
    )
    assert.deepStrictEqual(got, ["200/body", `0:${rtp}`, `1:${rtp}`, "OPTIONS/", "2:", "404/"])
  })

  it("skips what is neither and finds its way back, not misled by a dollar sign", () => {
    const { feed, framer } = make()
    const got = feed(`\x01\x02 m=audio $1 $\x00\x00\x04abcd${packet(0, rtp)}garbage${packet(0, rtp)}`)
    assert.deepStrictEqual(got, [`0:${rtp}`, `0:${rtp}`])
    assert.isAbove(framer.skipped, 10)
  })

  it("goes on behind a body that is longer than it says", () => {
    const { feed } = make()
    assert.deepStrictEqual(
      feed(`RTSP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nbody and more\r\na=x\r\n${packet(0, rtp)}`),
      [
        "200/body",
        `0:${rtp}`,
      ],
    )
  })

  it("ends a body that is shorter than it says, or of no stated length, when told to", () => {
    const { feed, framer, got } = make()
    feed("RTSP/1.0 200 OK\r\nContent-Length: 99\r\n\r\nshort")
    assert.deepStrictEqual(got, [])
    assert.isTrue(framer.flushBody())
    assert.isFalse(framer.flushBody())
    feed("RTSP/1.0 200 OK\r\nContent-Type: application/sdp\r\n\r\nv=0")
    assert.isTrue(framer.flushBody())
    assert.deepStrictEqual(got, ["200/short", "200/v=0"])
  })

  it("gives up on endless garbage, heads and bodies", () => {
    assert.throws(() => make().feed("x".repeat(maxGarbageBytes + 1)), Malformed)
    assert.throws(() => make().feed(`RTSP/1.0 200 OK\r\nContent-Length: ${maxBodyBytes + 1}\r\n\r\n`), Malformed)
    assert.throws(() => {
      const { feed } = make()
      for (let i = 0; i < 10; i++) feed(`RTSP/1.0 200 OK\r\n${"X: y\r\n".repeat(3000)}`)
    }, Malformed)
    const endless = make()
    endless.feed("RTSP/1.0 200 OK\r\nContent-Type: application/sdp\r\n\r\n")
    for (let i = 0; i < 5 && endless.got.length === 0; i++) endless.feed("a".repeat(64 * 1024))
    assert.strictEqual(endless.got[0]?.length, "200/".length + maxBodyBytes)
  })

  it("does not depend on how the bytes are cut", () => {
    const text = `\r\nRTSP/1.0 200 OK\r\nContent-Length: 4\r\n\r\nbody${packet(0, rtp)}junk$${
      packet(1, rtp.repeat(30))
    }\n\nANNOUNCE x RTSP/1.0\r\n\r\n`
    const whole = make().feed(text)
    for (const size of [1, 2, 3, 5, 7, 11, 64]) {
      const { feed, got } = make()
      for (let i = 0; i < text.length; i += size) feed(text.slice(i, i + size))
      assert.deepStrictEqual(got, whole, `chunks of ${size}`)
    }
  })
})
