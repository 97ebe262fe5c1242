/**
 * Hostile bytes for everything that reads a disk. The corpus in `fixtures/fuzz` is run as it is and mutated from a fixed seed.
 */
import { readInit } from "#media/fmp4.ts"
import { scanBoxes } from "#media/fmp4/box.ts"
import { claimedHeadBytes, maxHeadBytes, readFragmentLine } from "#media/fmp4/fragment-box.ts"
import { readIdentity } from "#media/fmp4/identity-box.ts"
import { decodeIndex, headerBytes, recordBytes } from "#media/storage/index-file.ts"
import { assert, describe, it } from "@effect/vitest"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { crc32 } from "node:zlib"
import { random } from "./random.ts"
import { fuzzFolder as folder, seeds } from "./storage-seeds.ts"

const corpus = (kind: "mp4" | "index"): ReadonlyArray<readonly [string, Buffer]> =>
  readdirSync(join(folder, kind)).map((name) => [name, readFileSync(join(folder, kind, name))] as const)

/** Flips, overwrites, cuts, doubles: one to four times. */
const mutate = (bytes: Buffer, next: (below: number) => number): Buffer => {
  let out = Buffer.from(bytes)
  for (let times = 1 + next(4); times > 0 && out.length > 8; times--) {
    const at = next(out.length)
    switch (next(5)) {
      case 0:
        out[at]! ^= 1 << next(8)
        break
      case 1:
        out.writeUInt32BE([0, 1, 8, 0x7fff_ffff, 0xffff_ffff][next(5)]!, Math.min(at, out.length - 4))
        break
      case 2:
        out = out.subarray(0, at)
        break
      case 3:
        out = Buffer.concat([out.subarray(0, at), out.subarray(next(at + 1))])
        break
      default:
        out.fill(next(256), at, Math.min(out.length, at + next(64)))
    }
  }
  return out
}

const readMedia = (bytes: Buffer): void => {
  const boxes = scanBoxes(bytes, 0, bytes.length)
  let end = 0
  for (const box of boxes) {
    assert.isTrue(box.start === end && box.content > box.start && box.end >= box.content && box.end <= bytes.length)
    end = box.end
    scanBoxes(bytes, box.content, box.end)
  }
  const init = readInit(bytes)
  if (init !== null) assert.isTrue(init.bytes <= bytes.length && init.parameters.video.sps.length > 0)
  for (const { start } of boxes) {
    const identity = readIdentity(bytes, start)
    if (identity !== null) assert.isAtMost(identity.end, bytes.length)
    const line = readFragmentLine(bytes.subarray(start))
    if (line !== null) assert.isTrue(line.headBytes <= maxHeadBytes && line.bytes >= line.headBytes)
    const claimed = claimedHeadBytes(bytes.subarray(start))
    if (claimed !== null) assert.isAtMost(claimed, maxHeadBytes)
  }
}

const readIndex = (bytes: Buffer): void => {
  const { entries, header, seal } = decodeIndex(bytes)
  if (header === null) assert.isTrue(entries.length === 0 && seal === null)
  assert.isAtMost(entries.length * recordBytes + headerBytes, Math.max(bytes.length, headerBytes))
  let end = header?.firstOffset ?? 0
  for (const entry of entries) {
    assert.isAtLeast(entry.offset, end)
    end = entry.offset + entry.bytes
  }
}

/** Makes the checksums right again, so that what is behind them is tried too. */
const resealed = (bytes: Buffer): Buffer => {
  const seal = (from: number, to: number) => {
    if (to <= bytes.length) bytes.writeUInt32BE(crc32(bytes.subarray(from, to - 4)), to - 4)
  }
  seal(0, headerBytes)
  for (let at = headerBytes; at < bytes.length; at += recordBytes) seal(at, at + recordBytes)
  return bytes
}

/** About as much work for each file. */
const roundsFor = (bytes: Buffer): number => Math.min(1_500, Math.ceil(2_000_000 / (bytes.length + 1)))

describe("hostile bytes", () => {
  it.each(corpus("mp4"))("as media: %s", (name, bytes) => {
    readMedia(bytes)
    const next = random(bytes.length + name.length)
    for (let i = 0; i < roundsFor(bytes); i++) readMedia(mutate(bytes, next))
  })

  it.each(corpus("index"))("as an index: %s", (name, bytes) => {
    readIndex(bytes)
    const next = random(bytes.length + name.length)
    for (let i = 0; i < roundsFor(bytes); i++) readIndex(mutate(bytes, next))
    for (let i = 0; i < roundsFor(bytes); i++) readIndex(resealed(mutate(bytes, next)))
  })

  it("are not all the corpus holds: whole files are read whole", () => {
    const media = corpus("mp4").filter(([name]) => name.startsWith("whole-"))
    assert.isAbove(media.length, 2)
    for (const [name, bytes] of media) assert.isNotNull(readInit(bytes), name)
    const indexes = corpus("index").filter(([name]) => name.startsWith("whole-"))
    assert.isAbove(indexes.length, 0)
    for (const [name, bytes] of indexes) assert.isNotNull(decodeIndex(bytes).seal, name)
  })

  it("come from the formats as they are now", () => {
    for (const [path, bytes] of seeds()) {
      assert.strictEqual(Buffer.compare(readFileSync(join(folder, path)), bytes), 0, path)
    }
  })
})
