/**
 * The picture that an ONVIF device serves by HTTP (GetSnapshotUri), with Basic (RFC 7617) or Digest (RFC 7616).
 *
 * Invariants
 * 1. Only the host that a person gave is asked; an address of another one is refused before anything is sent, and redirects are not
 *    followed. Credentials are sent after a challenge only, Basic only where nothing stronger is offered.
 * 2. A picture has at most {@link maxPictureBytes} and the call its time limit, a second try with credentials included.
 * 3. What is answered is a JPEG or a PNG by its header and by its first bytes.
 */
import { CameraAuthFailed, CameraUnreachable, type DeviceError } from "#schema/camera-device.ts"
import { Effect, Redacted } from "effect"
import { randomBytes } from "node:crypto"
import { type IncomingMessage, request } from "node:http"
import type { DeviceOptions, DevicePicture } from "../device.ts"
import { authorization, parseChallenges, strongest } from "../rtsp/auth.ts"
import { onHost } from "./onvif-media.ts"

/** Pictures of 12 megapixels at a high quality have some 5 MiB. */
export const maxPictureBytes = 8 << 20

interface HttpReply {
  readonly status: number
  readonly challenges: ReadonlyArray<string>
  readonly contentType: string
  readonly bytes: Buffer
}

const unreachable = (reason: CameraUnreachable["reason"], detail: string) => new CameraUnreachable({ reason, detail })

const challengesOf = ({ rawHeaders }: IncomingMessage): ReadonlyArray<string> =>
  rawHeaders.flatMap((text, index) =>
    index % 2 === 0 && text.toLowerCase() === "www-authenticate" ? [rawHeaders[index + 1] ?? ""] : []
  )

/** One GET, on a connection of its own that is gone when this ends. */
const get = (url: URL, headers: Record<string, string>) =>
  Effect.callback<HttpReply, CameraUnreachable>((resume) => {
    const fail = (reason: CameraUnreachable["reason"], detail: string) =>
      resume(Effect.fail(unreachable(reason, detail)))
    const broken = (error: NodeJS.ErrnoException) => fail("unreachable", error.code ?? "the connection broke")
    const sent = request({
      host: url.hostname.replace(/^\[|\]$/g, ""),
      port: url.port === "" ? 80 : Number(url.port),
      path: url.pathname + url.search,
      agent: false,
      headers,
    }, (message) => {
      const chunks: Array<Buffer> = []
      let bytes = 0
      message.on("data", (chunk: Buffer) => {
        bytes += chunk.length
        if (bytes > maxPictureBytes) {
          fail("tooLarge", `its picture has more than ${maxPictureBytes} bytes`)
          sent.destroy()
        } else chunks.push(chunk)
      })
      message.on("end", () =>
        resume(Effect.succeed({
          status: message.statusCode ?? 0,
          challenges: challengesOf(message),
          contentType: message.headers["content-type"] ?? "",
          bytes: Buffer.concat(chunks),
        })))
      message.on("error", broken)
    })
    sent.on("error", broken)
    sent.end()
    return Effect.sync(() => sent.destroy())
  })

const png = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])
/** What the bytes are; null: no picture that a browser may be shown. */
const pictureType = (bytes: Buffer): DevicePicture["contentType"] | null =>
  bytes.length > 3 && bytes[0] === 0xff && bytes[1] === 0xd8 && bytes[2] === 0xff ?
    "image/jpeg" :
    bytes.subarray(0, png.length).equals(png) ?
    "image/png" :
    null

const pictureOf = ({ bytes, contentType, status }: HttpReply): Effect.Effect<DevicePicture, DeviceError> => {
  if (status === 401 || status === 403) return Effect.fail(new CameraAuthFailed({ detail: `it answered ${status}` }))
  if (status === 503 || status === 429) return Effect.fail(unreachable("busy", `it is busy (${status})`))
  if (status !== 200) return Effect.fail(unreachable("protocol", `it answered ${status} instead of a picture`))
  const type = /^\s*image\/(?:jpe?g|pjpeg|png)\s*(?:;|$)/i.test(contentType) ? pictureType(bytes) : null
  return type === null ?
    Effect.fail(unreachable("protocol", "it answered something else than a picture")) :
    Effect.succeed({ contentType: type, bytes })
}

/** `uri`: as `Device.snapshotUri` answers it. */
export const fetchPicture = Effect.fn("Onvif.picture")(
  function*(options: DeviceOptions, uri: string): Effect.fn.Return<DevicePicture, DeviceError> {
    if (onHost(uri, options.host, "http:") !== uri) {
      return yield* unreachable("protocol", "the address of its picture is not on the camera's own host")
    }
    const url = new URL(uri)
    const first = yield* get(url, {})
    if (first.status !== 401 || options.username === null) return yield* pictureOf(first)
    const challenge = strongest(parseChallenges(first.challenges))
    if (challenge === null) return yield* pictureOf(first)
    const password = options.password === null ? "" : Redacted.value(options.password)
    const proof = authorization(challenge, { username: options.username, password }, {
      method: "GET",
      url: url.pathname + url.search,
      count: 1,
      cnonce: randomBytes(8).toString("hex"),
    })
    return yield* pictureOf(yield* get(url, { authorization: proof }))
  },
  (effect, options) =>
    Effect.timeoutOrElse(effect, {
      duration: options.requestTimeoutMs,
      orElse: () => Effect.fail(unreachable("timeout", `no picture came within ${options.requestTimeoutMs} ms`)),
    }),
)
