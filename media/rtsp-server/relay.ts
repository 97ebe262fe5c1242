/**
 * A player whose stream another node serves: what it says goes there, what is answered comes from there.
 *
 * Invariants
 * 1. Who may is decided here first, and there again by the same token; the account of the door is shown there in its name, as a Digest
 *    counts only where it was asked for.
 * 2. What was passed on is not passed on again.
 * 3. Pictures come on the connection itself: of datagrams the other node would not know where to.
 */
import { Effect, Redacted, Scope } from "effect"
import type { Socket } from "node:net"
import type { RtspFootage, RtspGate, RtspLine } from "../rtsp-server.ts"
import { formatRequest, header, type RequestHead } from "../rtsp/message.ts"
import { type Answer, type Refusal, refuse } from "./answer.ts"
import type { RtspAccount } from "./credentials.ts"
import { pour } from "./line.ts"
import type { Target } from "./transport.ts"

const passedOn = "nightjar-relayed"
/** Bodies are not passed on: players send none that says anything. */
const left: ReadonlySet<string> = new Set([passedOn, "content-length", "content-type"])

const basic = ({ password, username }: RtspAccount) =>
  `Basic ${Buffer.from(`${username}:${Redacted.value(password)}`, "utf8").toString("base64")}`

/** The part of a `Transport` header that asks for this very connection; null where none does. */
const byConnection = (transport: string): string | null => {
  const specs = transport.split(",").map((one) => one.trim()).filter((one) => /^RTP\/AVP\/TCP(;|$)/i.test(one))
  return specs.length === 0 ? null : specs.join(",")
}

export class Relay {
  private readonly line: RtspLine
  private readonly account: RtspAccount | null

  /** `account`: by which the player was let in; null: by a token. */
  constructor(line: RtspLine, account: RtspAccount | null) {
    this.line = line
    this.account = account
  }

  /** An answer where it cannot be passed on. */
  forward(head: RequestHead): Answer | null {
    const transport = header(head, "transport")
    const wished = transport === null ? null : byConnection(transport)
    if (transport !== null && wished === null) return { status: 461 }
    const kept = head.headers.filter(([name]) => !left.has(name) && (this.account === null || name !== "authorization"))
    this.line.send(formatRequest(head.method, head.url, [
      ...kept.map(([name, value]) => [name, name === "transport" ? wished ?? "" : value] as const),
      ...this.account === null ? [] : [["authorization", basic(this.account)] as const],
      [passedOn, "1"],
    ]))
    return null
  }

  /** A report, or sound of a talker. */
  packet(channel: number, bytes: Buffer, from: number, to: number): void {
    const packet = Buffer.allocUnsafe(4 + to - from)
    packet[0] = 0x24
    packet[1] = channel
    packet.writeUInt16BE(to - from, 2)
    bytes.copy(packet, 4, from, to)
    this.line.send(packet)
  }
}

/**
 * Opened until the scope closes where another node serves the target; what others have of footage where this node plays it from all of
 * them; null: this one has it, or was asked by another.
 */
export const openRelay = Effect.fnUntraced(
  function*(
    gate: RtspGate["Service"],
    { head, target }: { readonly head: RequestHead; readonly target: Target },
    account: RtspAccount | null,
    player: { readonly socket: Socket; readonly scope: Scope.Scope },
  ): Effect.fn.Return<Relay | RtspFootage | null, Refusal> {
    if (header(head, passedOn) !== null) return null
    const found = yield* gate.elsewhere(target).pipe(
      Scope.provide(player.scope),
      Effect.catchTag("RtspGateClosed", () => refuse(503)),
    )
    if (found === null || found.kind === "footage") return found
    const { line } = found
    yield* Effect.forkIn(pour(line, player.socket), player.scope)
    return new Relay(line, account)
  },
)
