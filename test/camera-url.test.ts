/** Source URLs: what is accepted, and that credentials leave them whole. */
import { movedSourceUrl, sourceUrlFault, splitSourceUrl } from "#schema/camera-url.ts"
import { CameraCreate } from "#schema/camera.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

describe("source URLs", () => {
  it.each<[string, string, string | null, string | null]>([
    [
      "rtsp://admin:p%40ss%23@10.0.0.5:554/Streaming/101?x=1",
      "rtsp://10.0.0.5:554/Streaming/101?x=1",
      "admin",
      "p@ss#",
    ],
    ["rtsp://a:b@c@camera/", "rtsp://camera/", "a", "b@c"],
    ["rtsp://a:50%@camera/x", "rtsp://camera/x", "a", "50%"],
    ["rtsp://only@camera/x", "rtsp://camera/x", "only", null],
    ["rtsp://[2001:db8::1]:99/x", "rtsp://[2001:db8::1]:99/x", null, null],
    ["rtsp://camera/user=a&channel=1", "rtsp://camera/user=a&channel=1", null, null],
  ])("splits %s", (text, url, username, password) => {
    assert.strictEqual(sourceUrlFault(text), null)
    assert.deepStrictEqual(splitSourceUrl(text), { url, username, password })
  })

  it.prop("gives back the credentials that were put in, and leaves none behind", {
    user: Schema.NonEmptyString,
    secret: Schema.NonEmptyString,
  }, ({ secret, user }) => {
    if (/[\uD800-\uDFFF]/.test(user + secret)) return
    const split = splitSourceUrl(
      `rtsp://${encodeURIComponent(user)}:${encodeURIComponent(secret)}@camera.example:8554/live?a=b`,
    )
    assert.deepStrictEqual(split, { url: "rtsp://camera.example:8554/live?a=b", username: user, password: secret })
  })

  it.each([
    "http://camera/",
    "rtsps://camera/",
    "rtsp:///path",
    "camera/path",
    "rtsp://camera:0/",
    "rtsp://camera:99999/",
    "rtsp://camera/a b",
    "rtsp://camera/\r\nDESCRIBE",
    "rtsp://camera/#fragment",
    "rtsp://u:p#x@camera/",
    "file:///etc/passwd",
    "",
  ])("refuses %j, without repeating it", (text) => {
    const fault = sourceUrlFault(text)
    assert.isString(fault)
    if (text.length > 8) assert.notInclude(fault, text)
    const decoded = Schema.decodeUnknownExit(CameraCreate)({
      name: "a",
      driver: "rtsp",
      streams: [{ role: "main", sourceUrl: text }],
    })
    assert.strictEqual(decoded._tag, "Failure")
  })

  it.each<[string, string, string, string]>([
    ["rtsp://10.0.0.5:8554/a?b=c", "10.0.0.5", "yard.example", "rtsp://yard.example:8554/a?b=c"],
    ["rtsp://Yard.Example/a", "yard.example", "10.0.0.5", "rtsp://10.0.0.5/a"],
    ["rtsp://10.0.0.5/a", "10.0.0.5", "2001:db8::1", "rtsp://[2001:db8::1]/a"],
    ["rtsp://[2001:db8::1]:99/a", "2001:db8::1", "10.0.0.5", "rtsp://10.0.0.5:99/a"],
    ["rtsp://10.0.0.50/a", "10.0.0.5", "10.0.0.6", "rtsp://10.0.0.50/a"],
  ])("%s goes with its camera from %s to %s", (text, from, to, url) => {
    assert.strictEqual(movedSourceUrl(text, from, to), url)
  })
})
