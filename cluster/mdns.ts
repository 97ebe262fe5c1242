/**
 * What nodes say of themselves by multicast DNS (RFC 6762) as a service `_nightjar._tcp` (RFC 6763), and how what others say is read.
 *
 * Invariants
 * 1. Total: whatever the bytes are, they read as what was said or as nothing.
 * 2. Nothing read here is proven. It holds no key and no fingerprint, so that nobody takes one from the air and believes to have
 *    compared it; where a node is, is where its words came from, whatever they say.
 * 3. Names carry the node's id, which nobody else has: they are not probed for (RFC 6762, section 8.1), as no two may collide.
 * 4. Bounds: a message of {@link largestMessage} bytes, names of nodes of {@link longestName} characters.
 */
import { NodeId } from "#schema/common.ts"
import dns, { type Answer, type DecodedPacket, type Packet, type SrvAnswer, type TxtAnswer } from "dns-packet"
import { Option, Schema } from "effect"
import { isUtf8 } from "node:buffer"

const domain = "local"
const service = `_nightjar._tcp.${domain}`
/** Which services there are at all is asked by this name (RFC 6763, section 9). */
const services = `_services._dns-sd._udp.${domain}`
/** RFC 6762, section 17: with the headers of a jumbo frame. */
export const largestMessage = 9_000 - 48
const longestName = 128
const longestVersion = 64
/** RFC 6762, section 10: of records that name a host. */
export const lifetimeSeconds = 120
/** Whoever asked by an ordinary resolver must not keep it for long (RFC 6762, section 6.7). */
const legacySeconds = 10
/** What others say of their lifetime counts up to that of the RFC for other records. */
const longestLifetimeSeconds = 4_500
/** The top bit of a question's class asks for an answer to the asker alone (section 5.4); how the codec shows such a class. */
const unicastClass = `UNKNOWN_${(1 << 15) | 1}`

/** A node, as it says of itself. */
export interface Announced {
  readonly nodeId: NodeId
  readonly name: string
  readonly version: string
  /** Of its HTTP interface. */
  readonly port: number
  readonly tls: boolean
}

export interface Heard extends Announced {
  /** 0: it says farewell. */
  readonly lifetimeSeconds: number
}

export interface Asked {
  readonly id: number
  readonly questions: ReadonlyArray<{ readonly name: string; readonly type: string; readonly unicast: boolean }>
  /** Nodes that the asker knows for at least half of their lifetime yet: they need not answer (section 7.1). */
  readonly known: ReadonlySet<string>
}

export type Said = { readonly kind: "query"; readonly asked: Asked } | {
  readonly kind: "response"
  readonly nodes: ReadonlyArray<Heard>
  /** Who says farewell without a word more. */
  readonly gone: ReadonlyArray<NodeId>
}

const instanceOf = (nodeId: string) => `${nodeId}.${service}`
const hostOf = (nodeId: string) => `${nodeId}.${domain}`
const same = (a: string, b: string) => a.toLowerCase() === b.toLowerCase()

/** At most so many bytes of UTF-8, whole characters. */
const clipped = (text: string, bytes: number): string => {
  let kept = text.slice(0, bytes)
  while (Buffer.byteLength(kept) > bytes) kept = kept.slice(0, -1)
  return kept.toWellFormed()
}

const recordsOf = (self: Announced, addresses: ReadonlyArray<string>, seconds: number): ReadonlyArray<Answer> => {
  const instance = instanceOf(self.nodeId)
  const host = hostOf(self.nodeId)
  // `name=` and its value share 255 bytes.
  const words = [
    "txtvers=1",
    `id=${self.nodeId}`,
    `name=${clipped(self.name, 240)}`,
    `version=${clipped(self.version, longestVersion)}`,
    `tls=${self.tls ? 1 : 0}`,
  ]
  const own = { ttl: seconds, class: "IN", flush: true } as const
  return [
    // Shared by all nodes, so nobody's word replaces another's.
    { type: "PTR", name: service, ttl: seconds, class: "IN", data: instance },
    { type: "SRV", name: instance, ...own, data: { port: self.port, target: host, priority: 0, weight: 0 } },
    { type: "TXT", name: instance, ...own, data: words },
    ...addresses.map((data) => ({ type: "A", name: host, ...own, data }) as const),
  ]
}

/** What is said unasked: at the start, when it changes, and, with a lifetime of 0, at the end. */
export const announcement = (self: Announced, addresses: ReadonlyArray<string>, seconds: number): Buffer =>
  dns.encode({
    type: "response",
    flags: dns.AUTHORITATIVE_ANSWER,
    answers: [...recordsOf(self, addresses, seconds)],
  })

/** Who is there, but for those that are known already: no more of them are named than fit a frame. */
export const queryForAll = (known: ReadonlyArray<{ readonly nodeId: NodeId; readonly seconds: number }>): Buffer =>
  dns.encode({
    type: "query",
    questions: [{ name: service, type: "PTR" }],
    answers: known.slice(0, 16).map(({ nodeId, seconds }) => ({
      type: "PTR",
      name: service,
      ttl: seconds,
      class: "IN",
      data: instanceOf(nodeId),
    })),
  })

/** Whether these are still there; at most 16 of them. */
export const queryFor = (nodeIds: ReadonlyArray<NodeId>): Buffer =>
  dns.encode({
    type: "query",
    questions: nodeIds.slice(0, 16).map((nodeId) => ({ name: instanceOf(nodeId), type: "SRV" })),
  })

const answers = (record: Answer, question: { readonly name: string; readonly type: string }): boolean =>
  same(record.name, question.name) && (question.type === "ANY" || question.type === record.type)

/** The answer to what was asked; null: it was not for this node, or the asker knows. */
export const answerTo = (
  asked: Asked,
  self: Announced,
  addresses: ReadonlyArray<string>,
  legacy: boolean,
): Buffer | null => {
  const seconds = legacy ? legacySeconds : lifetimeSeconds
  const records: ReadonlyArray<Answer> = [
    ...recordsOf(self, addresses, seconds).map((record) => legacy ? { ...record, flush: false } : record),
    { type: "PTR", name: services, ttl: seconds, class: "IN", data: service },
  ]
  const wanted = records.filter((record) =>
    asked.questions.some((question) => answers(record, question)) &&
    !(record.name === service && asked.known.has(self.nodeId))
  )
  if (wanted.length === 0) return null
  const packet: Packet = {
    type: "response",
    flags: dns.AUTHORITATIVE_ANSWER,
    answers: wanted,
    // Nobody has to ask again for what belongs to it (RFC 6763, section 12).
    additionals: records.filter((record) => !wanted.includes(record) && record.name !== services),
  }
  if (!legacy) return dns.encode(packet)
  // An ordinary resolver wants to see its question again.
  const questions = asked.questions.map(({ name, type }) => ({ name, type: type as "PTR" }))
  return dns.encode({ ...packet, id: asked.id, questions })
}

const decodeId = Schema.decodeUnknownOption(NodeId)

/** The id that an instance is named by. */
const nodeOf = (instance: unknown): NodeId | null => {
  if (typeof instance !== "string" || !same(instance.slice(-service.length - 1), `.${service}`)) return null
  return Option.getOrNull(decodeId(instance.slice(0, -service.length - 1).toLowerCase()))
}

/** `key=value` of a TXT record; of a key that stands twice the first counts (RFC 6763, section 6.4). */
const wordsOf = ({ data }: TxtAnswer): ReadonlyMap<string, string> => {
  const words = new Map<string, string>()
  for (const part of Array.isArray(data) ? data : [data]) {
    const bytes = Buffer.from(part)
    if (!isUtf8(bytes)) continue
    const [, key, value] = /^([!-<>-~]+)=(.*)$/s.exec(bytes.toString("utf8")) ?? []
    if (key !== undefined && !words.has(key.toLowerCase())) words.set(key.toLowerCase(), value ?? "")
  }
  return words
}

/** What people read has no control characters, so it cannot pretend to be more than one line. */
const line = (text: string, most: number): string => text.replace(/[\p{Cc}\p{Cf}]/gu, "").trim().slice(0, most)

const heard = (srv: SrvAnswer, txt: TxtAnswer): ReadonlyArray<Heard> => {
  const nodeId = nodeOf(srv.name)
  const words = wordsOf(txt)
  const name = line(words.get("name") ?? "", longestName)
  const { port } = srv.data
  if (nodeId === null || words.get("id") !== nodeId || name === "" || port === 0) return []
  return [{
    nodeId,
    name,
    version: line(words.get("version") ?? "", longestVersion),
    port,
    tls: words.get("tls") === "1",
    lifetimeSeconds: Math.min(srv.ttl ?? 0, txt.ttl ?? 0, longestLifetimeSeconds),
  }]
}

const response = ({ additionals = [], answers = [] }: DecodedPacket): Said => {
  const records = [...answers, ...additionals]
  const texts = records.filter((record) => record.type === "TXT")
  const nodes = records.filter((record) => record.type === "SRV").flatMap((srv) =>
    texts.filter((txt) => same(txt.name, srv.name)).slice(0, 1).flatMap((txt) => heard(srv, txt))
  )
  const gone = records.flatMap((record) => {
    const nodeId = record.type === "PTR" && record.ttl === 0 && same(record.name, service) ? nodeOf(record.data) : null
    return nodeId === null ? [] : [nodeId]
  })
  return { kind: "response", nodes, gone }
}

const query = ({ answers = [], id = 0, questions = [] }: DecodedPacket): Said => ({
  kind: "query",
  asked: {
    id,
    questions: questions.map((question) => ({
      name: question.name,
      type: question.type,
      unicast: (question.class as string | undefined) === unicastClass,
    })),
    known: new Set(answers.flatMap((record) => {
      const knows = record.type === "PTR" && same(record.name, service) && (record.ttl ?? 0) * 2 >= lifetimeSeconds
      const nodeId = knows ? nodeOf(record.data) : null
      return nodeId === null ? [] : [nodeId]
    })),
  },
})

/** What a datagram says; null where it says nothing that concerns nodes. */
export const readMessage = (bytes: Uint8Array): Said | null => {
  if (bytes.length > largestMessage) return null
  try {
    const packet = dns.decode(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
    return packet.type === "response" ? response(packet) : query(packet)
  } catch {
    // No DNS, or cut short.
    return null
  }
}
