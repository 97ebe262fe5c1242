/**
 * Captures: who pulls which camera, and what of it is on whose disk. A camera numbers its pictures, ten a second; the first of a
 * second is a key frame, where a capture begins and to which a killed process loses what it had not synced.
 */
import { coverage, makeBooks } from "./books.ts"
import type { ToldGap } from "./facts.ts"
import { addSpan, removeSpan, type Span } from "./spans.ts"
import { later, type Machine, type World } from "./world.ts"

/** Pictures in a group, in a segment of the manifest, and in a shadow's ring. */
export const group = 10
export const segment = 100
const ring = 300

interface Kept {
  /** Who recorded it. */
  readonly origin: number
  readonly camera: number
  readonly epoch: number
  spans: ReadonlyArray<Span>
}

export interface Captures {
  /** `epoch` null: it is not wanted, or only for the ring of a shadow. */
  readonly want: (camera: number, epoch: number | null, shadow: boolean) => void
  /** Conditions of this node or a camera changed. */
  readonly changed: () => void
  /** New disks. */
  readonly wipe: () => void
  /** The process is gone. */
  readonly killed: () => void
  readonly kept: () => ReadonlyArray<Kept>
  readonly put: (camera: number, epoch: number, span: Span, origin: number) => void
  readonly drop: (camera: number, epoch: number, span: Span) => void
  /** What this node recorded of a camera itself, and what it took from another. */
  readonly own: (camera: number) => ReadonlyArray<Span>
  readonly taken: (camera: number, epoch: number, origin: number) => ReadonlyArray<Span>
  /** What this node's ledger says of a camera, and what it says as the camera's home node of all footage it has. */
  readonly gaps: (camera: number) => ReadonlyArray<ToldGap>
  readonly coverage: (camera: number) => ReadonlyArray<ToldGap>
}

interface Capture {
  readonly camera: number
  epoch: number | null
  shadow: boolean
  /** Connecting attempts are told apart by this. */
  attempt: number
  connecting: boolean
  /** First picture of the connection that is open. */
  since: number | null
  /** First picture that is not on disk yet. */
  from: number | null
  /** What the world was told; it outlives the process. */
  expected: boolean
}

export interface Sessions {
  readonly limit: number
  readonly open: Set<number>
}

export const captures = (
  world: World,
  machine: Machine,
  sessions: ReadonlyArray<Sessions>,
  changedAll: (camera: number) => void,
): Captures => {
  const { facts, line } = world
  const all = sessions.map((_, camera): Capture => ({
    camera,
    epoch: null,
    shadow: false,
    attempt: 0,
    connecting: false,
    since: null,
    from: null,
    expected: false,
  }))
  const disk = new Map<string, Kept>()
  const picture = (): number => Math.floor(line.now() / 100)

  const keyOf = (camera: number, epoch: number, origin: number): string => `${camera} ${epoch} ${origin}`
  const put = (camera: number, epoch: number, span: Span, origin: number): void => {
    const key = keyOf(camera, epoch, origin)
    const kept = disk.get(key) ?? { camera, epoch, origin, spans: [] }
    kept.spans = addSpan(kept.spans, span)
    disk.set(key, kept)
  }
  const filesOf = (camera: number) =>
    [...disk.values()].flatMap((one) =>
      one.camera === camera ?
        one.spans.map(([from, to]) => ({ start: from * 100, end: to * 100, origin: one.origin, epoch: one.epoch })) :
        []
    )
  const books = makeBooks((camera) =>
    filesOf(camera).reduce((sum: ReadonlyArray<Span>, { end, start }) => addSpan(sum, [start, end]), [])
      .map(([start, end]) => ({ start, end }))
  )
  const write = (capture: Capture, until: number): void => {
    if (capture.from !== null && capture.epoch !== null && until > capture.from) {
      books.resume(capture.camera, capture.from * 100)
      books.extend(capture.camera, until * 100)
      put(capture.camera, capture.epoch, [capture.from, until], machine.index)
      facts.recorded(line.now(), machine.index, capture.camera, capture.epoch, [capture.from, until])
    }
    capture.from = null
  }
  const close = (capture: Capture, until: number): void => {
    write(capture, until)
    capture.attempt++
    capture.connecting = false
    if (capture.since !== null) {
      capture.since = null
      sessions[capture.camera]!.open.delete(machine.index)
      changedAll(capture.camera)
    }
  }
  const reaches = (camera: number): boolean =>
    machine.up && machine.frozen === 0 && machine.diskFaults === 0 && world.reach[machine.index]![camera] === 0
  const begin = (capture: Capture): void => {
    const next = Math.ceil(line.now() / 100 / group) * group
    capture.from = capture.shadow && capture.since !== null ? Math.max(capture.since, next - ring) : next
    const { attempt, from } = capture
    later(world, machine, from * 100 - line.now(), () => {
      if (capture.attempt === attempt && capture.from === from) books.resume(capture.camera, from * 100)
    })
  }
  const refresh = (capture: Capture): void => {
    const { camera } = capture
    const can = reaches(camera) && (capture.epoch !== null || capture.shadow)
    const { limit, open } = sessions[camera]!
    const free = open.has(machine.index) || open.size < limit
    facts.able(line.now(), machine.index, camera, can && free && capture.epoch !== null)
    if (!can) {
      if (capture.since !== null || capture.connecting) {
        close(capture, machine.frozen > 0 ? Math.floor(picture() / group) * group : picture())
      }
      if (machine.up && machine.frozen === 0 && capture.epoch !== null) {
        books.missing(camera, machine.diskFaults > 0 ? "disk_full" : "camera_offline", true, line.now())
      }
      return
    }
    if (capture.since === null && capture.epoch !== null) books.missing(camera, "camera_offline", !free, line.now())
    if (capture.since !== null) {
      if (capture.epoch === null) write(capture, picture())
      else if (capture.from === null) begin(capture)
      return
    }
    if (capture.connecting || !free) return
    capture.connecting = true
    const attempt = ++capture.attempt
    later(world, machine, world.chance.int(50, 400), () => {
      if (capture.attempt !== attempt) return
      capture.connecting = false
      if (open.size >= limit) {
        if (capture.epoch !== null) books.missing(camera, "camera_offline", true, line.now())
        return
      }
      open.add(machine.index)
      capture.since = Math.ceil(line.now() / 100 / group) * group
      changedAll(camera)
      refresh(capture)
    })
  }
  return {
    want: (camera, epoch, shadow) => {
      const capture = all[camera]!
      if (capture.expected !== (epoch !== null)) {
        capture.expected = epoch !== null
        facts.expected(line.now(), machine.index, camera, capture.expected)
      }
      if (epoch !== null) books.expect(camera, line.now())
      if (capture.epoch === epoch && capture.shadow === shadow) return
      const seamless = capture.from !== null && epoch !== null && capture.epoch !== null
      if (seamless && capture.epoch !== epoch) {
        const now = picture()
        write(capture, Math.max(now, capture.from!))
        capture.from = Math.max(now, capture.since ?? now)
      } else if (epoch === null) write(capture, picture())
      if (epoch === null) books.withdraw(camera, line.now())
      capture.epoch = epoch
      capture.shadow = shadow
      refresh(capture)
    },
    changed: () => all.forEach(refresh),
    wipe: () => {
      disk.clear()
      books.wipe()
      for (const capture of all) capture.expected = false
    },
    killed: () => {
      const synced = Math.floor(picture() / group) * group
      for (const capture of all) {
        close(capture, synced)
        facts.able(line.now(), machine.index, capture.camera, false)
        capture.epoch = null
        capture.shadow = false
      }
      books.killed()
    },
    kept: () => [...disk.values()].filter((one) => one.origin === machine.index && one.spans.length > 0),
    put: (camera, epoch, [from, to], origin) => {
      books.cover(camera, { start: from * 100, end: to * 100 }, line.now())
      put(camera, epoch, [from, to], origin)
    },
    drop: (camera, epoch, span) => {
      const kept = disk.get(keyOf(camera, epoch, machine.index))
      if (kept !== undefined) kept.spans = removeSpan(kept.spans, span)
    },
    own: (camera) =>
      [...disk.values()].filter((one) => one.camera === camera && one.origin === machine.index).flatMap((one) =>
        one.spans
      ),
    taken: (camera, epoch, origin) => disk.get(keyOf(camera, epoch, origin))?.spans ?? [],
    gaps: (camera) => books.gaps(camera, line.now()),
    coverage: (camera) => coverage(filesOf(camera), machine.index, books.gaps(camera, line.now()), line.now()),
  }
}
