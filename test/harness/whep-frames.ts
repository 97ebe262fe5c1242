/** What numbers the simulated camera gave to the pictures that a viewer by WHEP got. */
import { FRAME_AT, SEI_UUID } from "../camera-simulator/sei.ts"
import type { Watching } from "../media/webrtc-watching.ts"

/** -1: a picture without a mark. */
export const framesOf = ({ pictures }: Watching): ReadonlyArray<number> =>
  pictures.map(({ nals }) => {
    const all = Buffer.concat([...nals])
    const at = all.indexOf(SEI_UUID)
    return at < 0 ? -1 : Number(all.toString("latin1", at + FRAME_AT, at + FRAME_AT + 12))
  })

/** The groups of `length` pictures of which not every one came, whatever the order: what was sent again comes behind what was not. */
export const brokenGroups = (frames: ReadonlyArray<number>, length: number): ReadonlyArray<number> => {
  const sorted = [...new Set(frames)].toSorted((a, b) => a - b)
  const broken = sorted.flatMap((frame, i) => {
    const before = sorted[i - 1] ?? frame
    return Array.from({ length: Math.max(0, frame - before - 1) }, (_, n) => Math.floor((before + 1 + n) / length))
  })
  return [...new Set(broken)]
}

/** Where a number does not follow the one before. */
export const gapsIn = (frames: ReadonlyArray<number>): ReadonlyArray<string> =>
  frames.flatMap((frame, i) => i > 0 && frame !== frames[i - 1]! + 1 ? [`${frames[i - 1]} → ${frame}`] : [])
