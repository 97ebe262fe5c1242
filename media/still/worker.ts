/**
 * The decoder: a process of its own, started by `decoder.ts`. Jobs come by standard input, replies leave by descriptor 3.
 *
 * Invariants
 * 1. One job at a time; each has a decoder context of its own, so nothing of one picture reaches the next.
 * 2. Ends with its input.
 */
import { Schema } from "effect"
import { createWriteStream } from "node:fs"
import { makeMessageReader, message, StillJob, type StillReply } from "./pipe.ts"

/** Of 100: artefacts are not seen at the size of a tile. */
const quality = 80

const out = createWriteStream("", { fd: 3 })
const reply = (header: StillReply, payload?: Uint8Array): void => {
  for (const piece of message(header, payload)) out.write(piece)
}

const decodeJob = Schema.decodeUnknownSync(Schema.fromJsonString(StillJob))
const even = (length: number): number => Math.max(2, Math.round(length / 2) * 2)

const library = await import("node-av").catch((error: unknown) => {
  const text = error instanceof Error ? error.message.split("\n")[0] ?? "" : String(error)
  reply({ kind: "unsupported", reason: text.slice(0, 500) })
  return null
})

const jpegOf = async (av: NonNullable<typeof library>, { codec: name, width }: StillJob, picture: Buffer) => {
  const codec = av.Codec.findDecoder(name === "h264" ? av.AV_CODEC_ID_H264 : av.AV_CODEC_ID_HEVC)
  if (codec === null) throw new Error(`no decoder for ${name}`)
  using context = new av.CodecContext()
  using packet = new av.Packet()
  using frame = new av.Frame()
  using scaler = new av.Scaler()
  context.allocContext3(codec)
  context.threadCount = 1
  av.FFmpegError.throwIfError(await context.open2(codec), "open")
  packet.alloc()
  packet.data = picture
  packet.pts = 0n
  packet.dts = 0n
  av.FFmpegError.throwIfError(await context.sendPacket(packet), "decode")
  av.FFmpegError.throwIfError(await context.sendPacket(null), "decode")
  frame.alloc()
  av.FFmpegError.throwIfError(await context.receiveFrame(frame), "decode")
  frame.timeBase = new av.Rational(1, 25)
  const to = Math.min(width, frame.width)
  const [wide, high] = [even(to), even(frame.height * to / frame.width)]
  // Cameras send limited range, a JPEG has the full one (JFIF 1.02); the encoder only marks its pictures so.
  using filter = av.FilterAPI.create(`scale=w=${wide}:h=${high}:out_range=full,format=yuv420p`)
  await filter.process(frame)
  await filter.flush()
  using scaled = await filter.receive()
  if (!(scaled instanceof av.Frame)) throw new Error("no picture")
  // Awaited here: what it works with is disposed of on the way out.
  return await scaler.toJpeg(scaled, { quality })
}

if (library !== null) {
  library.Log.setLevel(library.AV_LOG_QUIET)
  let work = Promise.resolve()
  const take = makeMessageReader((header, payload) => {
    work = work.then(() => jpegOf(library, decodeJob(header), payload)).then(
      (jpeg) => reply({ kind: "jpeg" }, jpeg),
      (error: unknown) => reply({ kind: "failed", reason: String(error).slice(0, 500) }),
    )
  })
  process.stdin.on("data", take)
  process.stdin.on("end", () => process.exit(0))
  reply({ kind: "ready" })
}
