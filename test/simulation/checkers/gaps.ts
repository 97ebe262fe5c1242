/**
 * Statement 3: every missing picture of a recording that should run has a gap with a cause, and no gap lies where pictures are.
 *
 * Two things are judged. What each node's own ledger says of what that node had to record; and what the home node says in the end of
 * coverage, when everybody's footage is home. A cause must be true: what it names held at some moment of the gap. Of several it is
 * the first, so that a start which a kill cuts short stays one.
 */
import { type Checker, deaf, type Plan, type ToldGap } from "../facts.ts"
import { addSpan, missing, removeSpan, type Span } from "../spans.ts"

/** A gap's cause may have ended this long before the gap did: a new connection, a group of pictures that could not be kept. */
const slackMs = 3_000
/** Connecting, and waiting for a key frame. */
const startingMs = 5_000

/** When something held, in spans of milliseconds; it may hold more than once at a time. */
const history = () => {
  const past: Array<Span> = []
  let since = 0
  let count = 0
  return {
    change: (at: number, by: number): void => {
      if (count === 0 && by > 0) since = at
      count += by
      if (count === 0) past.push([since, at])
    },
    within: (from: number, to: number): boolean =>
      (count > 0 && since < to) || past.some(([start, end]) => start < to && end >= from),
  }
}
type History = ReturnType<typeof history>

/**
 * The gap of which `gap` is a piece: footage that a guardian `brought` cut it, its pieces have its cause, and what that cause names
 * may have held in another piece or under the footage. It ends where this node recorded itself.
 */
const wholeOf = (gap: ToldGap, told: ReadonlyArray<ToldGap>, brought: ReadonlyArray<Span>): Span => {
  const alike = told.filter(({ cause }) => cause === gap.cause)
  const parts = [...alike.map(({ end, start }): Span => [start, end]), ...brought]
  let [start, end] = [gap.start, gap.end]
  for (let grown = true; grown;) {
    grown = false
    for (const [from, to] of parts) {
      if (from > end || to < start || (from >= start && to <= end)) continue
      start = Math.min(start, from)
      end = Math.max(end, to)
      grown = true
    }
  }
  return [start, end]
}

export const gaps = (plan: Plan): Checker => {
  const wrong: Array<string> = []
  const perNode = (): ReadonlyArray<History> => Array.from({ length: plan.nodes }, history)
  const [down, frozen, full] = [perNode(), perNode(), perNode()]
  const ways = Array.from({ length: plan.nodes }, () => plan.cameras.map(history))
  const states = Array.from({ length: plan.nodes }, () => "down")
  for (const one of down) one.change(0, 1)
  const due = new Map<string, Array<{ readonly from: number; to: number }>>()
  /** What a node recorded, whether it still has it or not, and what each has. */
  const held = new Map<string, ReadonlyArray<Span>>()
  const has = new Map<string, ReadonlyArray<Span>>()
  const brought = new Map<string, ReadonlyArray<Span>>()
  const ever = new Map<number, ReadonlyArray<Span>>()
  const wiped = new Map<number, number>()
  const key = (node: number, camera: number): string => `${node} ${camera}`

  const isTrue = (node: number, camera: number, gap: ToldGap, told: ReadonlyArray<ToldGap>): boolean => {
    const recorded = held.get(key(node, camera)) ?? []
    const came = (brought.get(key(node, camera)) ?? []).flatMap((span) => missing(recorded, span))
    const [start, end] = wholeOf(gap, told, came.map(([first, last]): Span => [first * 100, last * 100]))
    // What is left of a gap began where this node recorded last.
    const own = recorded.findLast(([, to]) => to * 100 <= gap.start)
    const from = Math.min(start, own === undefined ? 0 : own[1] * 100) - slackMs
    switch (gap.cause) {
      case "node_down":
        // Who stands still and is killed then was not running either.
        return down[node]!.within(from, end) || frozen[node]!.within(from, end)
      case "disk_full":
        return full[node]!.within(from, end)
      case "camera_offline":
        return plan.sessionsShort || ways[node]![camera]!.within(from, end) || frozen[node]!.within(from, end)
      case "starting":
        return (due.get(key(node, camera)) ?? []).some(({ from: at }) =>
          at >= start && at <= gap.start &&
          (end - at <= startingMs || down[node]!.within(at, end) || frozen[node]!.within(at, end))
        )
      default:
        return false
    }
  }
  /** Gaps against pictures, within `[from, to)` milliseconds. */
  const compare = (
    who: string,
    [from, to]: Span,
    told: ReadonlyArray<ToldGap>,
    there: ReadonlyArray<Span>,
    excused: ReadonlyArray<Span>,
  ): void => {
    const explained = told.reduce((sum: ReadonlyArray<Span>, { end, start }) => addSpan(sum, [start, end]), [])
    const inMs = (spans: ReadonlyArray<Span>) => spans.map(([start, end]): Span => [start * 100, end * 100])
    const pictures = inMs(there)
    const within: Span = [Math.ceil(from / 100) * 100, Math.floor(to / 100) * 100]
    const both = inMs(excused).reduce<ReadonlyArray<Span>>((sum, one) => addSpan(sum, one), pictures)
    for (const hole of missing(both, within)) {
      for (const [start, end] of missing(explained, hole)) {
        wrong.push(`gaps: ${who} has no gap for what is missing from ${start} to ${end}`)
      }
    }
    for (const [start, end] of explained) {
      const span: Span = [Math.max(start, within[0]), Math.min(end, within[1])]
      if (span[1] <= span[0]) continue
      const recorded = missing(missing(pictures, span), span)
      for (const one of recorded) wrong.push(`gaps: ${who} has a gap where there are pictures from ${one.join(" to ")}`)
    }
  }
  return {
    ...deaf,
    process: (at, node, state) => {
      if (states[node] === "down" && state !== "down") down[node]!.change(at, -1)
      if (states[node] !== "down" && state === "down") down[node]!.change(at, 1)
      if (states[node] === "frozen" && state !== "frozen") frozen[node]!.change(at, -1)
      if (states[node] !== "frozen" && state === "frozen") frozen[node]!.change(at, 1)
      states[node] = state
    },
    way: (at, node, camera, open) => ways[node]![camera]!.change(at, open ? -1 : 1),
    room: (at, node, room) => full[node]!.change(at, room ? -1 : 1),
    expected: (at, node, camera, is) => {
      const list = due.get(key(node, camera)) ?? []
      due.set(key(node, camera), list)
      if (is) list.push({ from: at, to: Infinity })
      else if (list.length > 0) list.at(-1)!.to = at
    },
    recorded: (_, node, camera, __, span) => {
      held.set(key(node, camera), addSpan(held.get(key(node, camera)) ?? [], span))
      has.set(key(node, camera), addSpan(has.get(key(node, camera)) ?? [], span))
      ever.set(camera, addSpan(ever.get(camera) ?? [], span))
    },
    deleted: (_, node, camera, __, span) => {
      has.set(key(node, camera), removeSpan(has.get(key(node, camera)) ?? [], span))
    },
    received: (_, __, camera, ___, span) => {
      const at = key(plan.cameras[camera]!, camera)
      brought.set(at, addSpan(brought.get(at) ?? [], span))
      has.set(at, addSpan(has.get(at) ?? [], span))
    },
    wiped: (at, node) => {
      wiped.set(node, at)
      for (const camera of plan.cameras.keys()) {
        const own = key(node, camera)
        const gone = has.get(own) ?? []
        has.delete(own)
        held.delete(own)
        brought.delete(own)
        due.delete(own)
        const kept = [...has].filter(([one]) => one.endsWith(` ${camera}`)).flatMap(([, spans]) => spans)
          .reduce((sum: ReadonlyArray<Span>, one) => addSpan(sum, one), [])
        for (const span of gone) {
          for (const lost of missing(kept, span)) ever.set(camera, removeSpan(ever.get(camera) ?? [], lost))
        }
      }
    },
    verdict: ({ at, coverage, ledgers }) => {
      for (const { camera, gaps: told, node } of ledgers) {
        const who = `the ledger of node ${node} for camera ${camera}`
        const times = due.get(key(node, camera)) ?? []
        for (const { from, to } of times) {
          const excused = brought.get(key(node, camera)) ?? []
          compare(who, [from, Math.min(to, at)], told, held.get(key(node, camera)) ?? [], excused)
        }
        for (const gap of told) {
          if (isTrue(node, camera, gap, told)) continue
          wrong.push(`gaps: ${who} says ${gap.cause} from ${gap.start} to ${gap.end}`)
        }
      }
      for (const { camera, gaps: told } of coverage) {
        const home = plan.cameras[camera]!
        const who = `the home node of camera ${camera}`
        compare(who, [0, at], told, ever.get(camera) ?? [], [])
        // New hardware knows nothing of the causes of before.
        const from = wiped.get(home) ?? 0
        for (const gap of told) {
          if (gap.start < from + slackMs && from > 0) continue
          // What a guardian's footage left of a gap has the cause of the whole, which was judged above.
          const whole = ledgers.some((one) =>
            one.node === home && one.camera === camera &&
            one.gaps.some((of) => of.cause === gap.cause && of.start <= gap.start && of.end >= gap.end)
          )
          if (!whole && !isTrue(home, camera, gap, told)) {
            wrong.push(`gaps: ${who} says ${gap.cause} from ${gap.start} to ${gap.end}`)
          }
        }
      }
      return wrong
    },
  }
}
