/**
 * A player that talks to the camera of a live stream (ONVIF Streaming Specification, section 5.3): it asks for the `sendonly` audio part
 * by `Require: www.onvif.org/ver20/backchannel`, sets it up interleaved, and sends RTP there.
 *
 * Invariants
 * 1. The camera is held from the DESCRIBE on, which tells its codec, until the connection ends; when it is lost, so is the connection.
 * 2. Packets on no other channel than the one that was set up are heard.
 */
import { Effect, Scope } from "effect"
import type { RtspGate, RtspGrant, RtspTalk } from "../rtsp-server.ts"
import { type Head, header } from "../rtsp/message.ts"
import { type Refusal, refuse } from "./answer.ts"
import type { LiveTarget } from "./transport.ts"

export const backchannelTag = "www.onvif.org/ver20/backchannel"
/** Where RTP of a talker is, unless it chooses another. */
export const talkChannel = 4

/** Extensions that a player may require (RFC 2326, section 12.32). */
const known: ReadonlySet<string> = new Set(["onvif-replay", backchannelTag])

/** What it requires beyond them. */
export const unknownOf = (head: Head): ReadonlyArray<string> =>
  (header(head, "require") ?? "").split(",").map((one) => one.trim().toLowerCase())
    .filter((one) => one !== "" && !known.has(one))

export const wantsToTalk = (head: Head): boolean =>
  (header(head, "require") ?? "").toLowerCase().includes(backchannelTag)

export interface TalkingOptions {
  readonly gate: RtspGate["Service"]
  /** Of the connection. */
  readonly scope: Scope.Scope
  readonly from: () => { readonly address: string; readonly userAgent: string }
  readonly close: () => void
}

export class Talking {
  private readonly options: TalkingOptions
  private talk: RtspTalk | null = null
  /** Interleaved; null: not set up. */
  channel: number | null = null

  constructor(options: TalkingOptions) {
    this.options = options
  }

  /** Holds the camera for whoever was let in; its codec. */
  readonly hold = Effect.fnUntraced(
    function*(this: Talking, grant: RtspGrant, { streamId }: LiveTarget): Effect.fn.Return<RtspTalk["codec"], Refusal> {
      if (this.talk !== null) return this.talk.codec
      const { close, from, gate, scope } = this.options
      const talk = yield* gate.talk(grant, streamId, from()).pipe(
        Scope.provide(scope),
        Effect.catchTag("RtspTalkRefused", ({ reason }) => {
          switch (reason) {
            case "unsupported":
              return refuse(551, [["Unsupported", backchannelTag]])
            case "notAllowed":
              return refuse(403)
            // RTSP 1.0 knows no word for it; this one says that there is no room for another.
            case "taken":
              return refuse(453)
            case "away":
              return refuse(503)
          }
        }),
      )
      this.talk = talk
      yield* Effect.forkIn(Effect.andThen(talk.ended, Effect.sync(close)), scope)
      return talk.codec
    },
  )

  /** True: it was a word of the talker's. */
  hear(channel: number, bytes: Buffer, from: number, to: number): boolean {
    if (channel !== this.channel || this.talk === null) return false
    this.talk.hear(bytes, from, to)
    return true
  }
}
