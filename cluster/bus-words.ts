/**
 * What nodes of one cluster say to each other on the bus, and which of it is believed: hints and signs of life, never facts.
 *
 * A word is the sender's node id (16 bytes), an Ed25519 signature (64 bytes) over the purpose, that id and the text, and the text: JSON.
 *
 * Invariants
 * 1. What is not signed by the key of a member is dropped before anything of its text is read.
 * 2. `here` counts as an answer to the survey that is on, once; so it proves that the sender lives, and which of its lives (`boot`) is
 *    the present one. No clock has a part in it.
 * 3. `events` counts in a life that was proven so, and only when newer than the last: what was recorded on the way, in this life or in
 *    an earlier one, is no hint. A `survey` tells nothing but a question, so it is answered in a life that is not proven yet.
 * 4. Bounds: {@link largestWord} bytes, {@link mostPerSecond} signatures verified in a second; total for whatever the bytes are. What
 *    is dropped is counted by reason.
 */
import type { EpochMs, NodeId } from "#schema/common.ts"
import { Option, Schema } from "effect"
import { type KeyObject, sign, verify } from "node:crypto"

export const largestWord = 1_024
const mostPerSecond = 400
const purpose = Buffer.from("nightjar bus v1\0")
const idBytes = 16
const headBytes = idBytes + 64

const Text = Schema.Struct({
  /** Random of each life of the sender; `seq` grows with each word of it. */
  boot: Schema.String.check(Schema.isMaxLength(64)),
  seq: Schema.Int,
  /** `events`: the log has something new. `survey`: who is there? `here`: I am, to the survey of that id. */
  kind: Schema.Literals(["events", "survey", "here"]),
  survey: Schema.String.check(Schema.isMaxLength(64)),
})
export type Said = typeof Text.Type & { readonly from: NodeId }
const decodeText = Schema.decodeUnknownOption(Schema.fromJsonString(Text))

export type Dropped = "oversized" | "tooMany" | "unreadable" | "stranger" | "forged" | "replayed" | "stale"

const bytesOf = (nodeId: NodeId): Buffer => Buffer.from(nodeId.replaceAll("-", ""), "hex")
/** How the bytes of an id read as a key of the members' table. */
const nameOf = (bytes: Uint8Array): NodeId =>
  Buffer.from(bytes).toString("hex").replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5") as NodeId

export const speak = ({ from, ...text }: Said, key: KeyObject): Buffer => {
  const id = bytesOf(from)
  const said = Buffer.from(JSON.stringify(text))
  return Buffer.concat([id, sign(null, Buffer.concat([purpose, id, said]), key), said])
}

/** What is known of a sender's present life: of each kind the newest word. */
interface Life {
  readonly boot: string
  readonly newest: Map<Said["kind"], number>
}

export interface Judging {
  /** Who belongs to the cluster, this node not among them. */
  readonly keys: ReadonlyMap<NodeId, KeyObject>
  /** The survey of this node that is on. */
  readonly survey: string
  readonly nowMs: EpochMs
}

/** Judges what comes in; remembers of each member where it stands. */
export class BusJudge {
  readonly dropped: Record<Dropped, number> = {
    oversized: 0,
    tooMany: 0,
    unreadable: 0,
    stranger: 0,
    forged: 0,
    replayed: 0,
    stale: 0,
  }
  readonly #lives = new Map<NodeId, Life>()
  #second = 0
  #judged = 0

  #isTooMuch(nowMs: EpochMs): boolean {
    const second = Math.floor(nowMs / 1000)
    this.#judged = second === this.#second ? this.#judged + 1 : 1
    this.#second = second
    return this.#judged > mostPerSecond
  }

  /** The text, once it is known to be a member's. */
  #signed(bytes: Uint8Array, { keys, nowMs }: Judging): Said | Dropped {
    if (bytes.length > largestWord) return "oversized"
    if (bytes.length < headBytes) return "unreadable"
    const from = nameOf(bytes.subarray(0, idBytes))
    const key = keys.get(from)
    if (key === undefined) return "stranger"
    if (this.#isTooMuch(nowMs)) return "tooMany"
    const [id, signature, text] = [
      bytes.subarray(0, idBytes),
      bytes.subarray(idBytes, headBytes),
      bytes.subarray(headBytes),
    ]
    if (!verify(null, Buffer.concat([purpose, id, text]), key, signature)) return "forged"
    const said = Option.getOrNull(decodeText(Buffer.from(text).toString("utf8")))
    return said === null ? "unreadable" : { ...said, from }
  }

  #verdict(bytes: Uint8Array, judging: Judging): Said | Dropped {
    const said = this.#signed(bytes, judging)
    if (typeof said === "string") return said
    for (const known of this.#lives.keys()) if (!judging.keys.has(known)) this.#lives.delete(known)
    if (said.kind === "here" && said.survey !== judging.survey) return "stale"
    const known = this.#lives.get(said.from)
    if (known?.boot === said.boot) {
      if (said.seq <= (known.newest.get(said.kind) ?? -1)) return "replayed"
      known.newest.set(said.kind, said.seq)
      return said
    }
    if (said.kind === "events") return "stale"
    if (said.kind === "here") this.#lives.set(said.from, { boot: said.boot, newest: new Map([["here", said.seq]]) })
    return said
  }

  /** What was said; null where it does not count. */
  judge(bytes: Uint8Array, judging: Judging): Said | null {
    const verdict = this.#verdict(bytes, judging)
    if (typeof verdict !== "string") return verdict
    this.dropped[verdict] += 1
    return null
  }
}
