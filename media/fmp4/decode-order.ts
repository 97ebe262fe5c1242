/**
 * Decode times for pictures that come in decode order with presentation times only (RTP carries no others): the i-th picture
 * is decoded at the i-th smallest presentation time.
 *
 * Invariants
 * 1. Decode times rise strictly, whatever comes in.
 * 2. As soon as the stream's depth of reordering was seen, decode times are a permutation of the presentation times.
 * 3. At most {@link maxDepth} pictures are held back once learning is over, at most `learnTicks` of media (and
 *    {@link maxLearning} pictures) while it lasts.
 */
/** H.264 and H.265 decoders hold at most 16 pictures. */
export const maxDepth = 16
const maxLearning = 512

/** A picture whose decode time is not yet known. */
export interface Waiting {
  /** Presentation time in the ticks of the source. */
  readonly ticks: number
  readonly key: boolean
  readonly bytes: number
}

export interface DecodeOrder {
  /** Takes the next picture; false where its time cannot belong to this stream (more than {@link maxDepth} pictures back). */
  readonly push: (picture: Waiting) => boolean
  /** Resolves everything held back. */
  readonly flush: () => void
}

/** `onPicture` gets each picture with its decode time in the ticks of the source. */
export const makeDecodeOrder = (
  learnTicks: number,
  onPicture: (picture: Waiting, decodeTicks: number) => void,
): DecodeOrder => {
  const waiting: Array<Waiting> = []
  /** Presentation times not yet given to a picture, rising. */
  const open: Array<number> = []
  /** Presentation times of the newest pictures, in decode order. */
  const recent: Array<number> = []
  let depth = 0
  let learning = true
  let last = Number.NEGATIVE_INFINITY

  const resolveOne = () => {
    const picture = waiting.shift()
    const ticks = open.shift()
    if (picture === undefined || ticks === undefined) return
    last = Math.max(ticks, last + 1)
    onPicture(picture, last)
  }

  const insert = (ticks: number) => {
    let at = open.length
    while (at > 0 && (open[at - 1] ?? 0) > ticks) at--
    open.splice(at, 0, ticks)
  }

  /** Pictures decoded before this one and shown after it. */
  const earlierButShownLater = (ticks: number): number => {
    let count = 0
    for (const other of recent) if (other > ticks) count++
    return count
  }

  const learned = (picture: Waiting): boolean => {
    const first = waiting[0]
    return first !== undefined &&
      (picture.key || picture.ticks - first.ticks >= learnTicks || waiting.length >= maxLearning)
  }

  return {
    push: (picture) => {
      const behind = earlierButShownLater(picture.ticks)
      if (behind > maxDepth) return false
      depth = Math.max(depth, behind)
      if (recent.push(picture.ticks) > maxDepth + 1) recent.shift()
      if (learning && learned(picture)) learning = false
      insert(picture.ticks)
      waiting.push(picture)
      while (!learning && open.length > depth) resolveOne()
      return true
    },
    flush: () => {
      while (waiting.length > 0) resolveOne()
    },
  }
}
