/** Half-open spans of picture numbers of one camera, kept sorted and apart. */
export type Span = readonly [from: number, to: number]

export const addSpan = (spans: ReadonlyArray<Span>, [from, to]: Span): ReadonlyArray<Span> => {
  if (to <= from) return spans
  const out: Array<Span> = []
  let start = from
  let stop = to
  for (const span of spans) {
    if (span[1] < start || span[0] > stop) out.push(span)
    else {
      start = Math.min(start, span[0])
      stop = Math.max(stop, span[1])
    }
  }
  out.push([start, stop])
  return out.toSorted((a, b) => a[0] - b[0])
}

/** What of `span` is not in `spans`. */
export const missing = (spans: ReadonlyArray<Span>, [from, to]: Span): ReadonlyArray<Span> => {
  const out: Array<Span> = []
  let at = from
  for (const [start, stop] of spans) {
    if (stop <= at) continue
    if (start >= to) break
    if (start > at) out.push([at, start])
    at = stop
  }
  if (at < to) out.push([at, to])
  return out
}

export const removeSpan = (spans: ReadonlyArray<Span>, [from, to]: Span): ReadonlyArray<Span> =>
  spans.flatMap((span) => missing([[from, to]], span))
