/**
 * Putting pictures to places of the wall: by dragging (mouse, finger, pen), or by picking one and then choosing its place, which
 * keys and single taps do.
 *
 * Invariants
 * 1. A finger that scrolls the list drags nothing: it drags when it moves sideways or has rested.
 * 2. What follows the pointer is moved without React; React hears of it only when another place is below.
 * 3. A drag is no click: the one that the browser makes of it is swallowed.
 */
import type { ChannelId } from "#schema/common.ts"
import { type PointerEvent as ReactPointerEvent, type RefObject, useCallback, useEffect, useRef, useState } from "react"

export interface Picked {
  readonly picture: ChannelId
  readonly name: string
  /** Where it stands; null: it comes from the list. */
  readonly from: number | null
}

export interface Placing {
  /** What waits for its place, picked or dragged. */
  readonly picked: Picked | null
  readonly dragging: boolean
  /** The place below the pointer. */
  readonly over: number | null
  readonly pick: (picked: Picked) => void
  readonly cancel: () => void
  /** For `onPointerDown` of what can be dragged. */
  readonly grip: (event: ReactPointerEvent, picked: Picked) => void
  /** Follows the pointer. */
  readonly ghost: RefObject<HTMLDivElement | null>
}

const threshold = 6
const restMs = 300

const placeBelow = (x: number, y: number): number | null => {
  const place = document.elementFromPoint(x, y)?.closest<HTMLElement>("[data-tile]")?.dataset["tile"]
  return place === undefined ? null : Number(place)
}

const swallowClick = () => {
  const swallow = (event: MouseEvent) => {
    event.stopPropagation()
    event.preventDefault()
  }
  window.addEventListener("click", swallow, { capture: true, once: true })
  window.setTimeout(() => window.removeEventListener("click", swallow, { capture: true }), 50)
}

/** `onPlace` with a place of null: it was let go over the list. */
export const usePlacing = (onPlace: (picked: Picked, tile: number | null) => void): Placing => {
  const [picked, setPicked] = useState<Picked | null>(null)
  const [dragging, setDragging] = useState(false)
  const [over, setOver] = useState<number | null>(null)
  const ghost = useRef<HTMLDivElement>(null)
  const place = useRef(onPlace)
  place.current = onPlace
  const stop = useRef(() => {})

  const cancel = useCallback(() => {
    stop.current()
    setPicked(null)
  }, [])

  useEffect(() => () => stop.current(), [])

  const grip = useCallback((start: ReactPointerEvent, what: Picked) => {
    if (start.button !== 0 || !start.isPrimary) return
    const abort = new AbortController()
    const options = { signal: abort.signal }
    const touch = start.pointerType === "touch"
    let active = false
    let below: number | null = null

    const begin = () => {
      active = true
      setPicked(what)
      setDragging(true)
    }
    const rest = touch ? window.setTimeout(begin, restMs) : 0
    const end = () => {
      window.clearTimeout(rest)
      abort.abort()
      stop.current = () => {}
      if (!active) return
      setPicked(null)
      setDragging(false)
      setOver(null)
    }
    stop.current()
    stop.current = end

    window.addEventListener("pointermove", ({ clientX, clientY, pointerId }) => {
      if (pointerId !== start.pointerId) return
      const [x, y] = [Math.abs(clientX - start.clientX), Math.abs(clientY - start.clientY)]
      if (!active && touch && y > threshold && y > x) return end()
      if (!active && Math.hypot(x, y) > threshold) begin()
      if (!active) return
      if (ghost.current !== null) ghost.current.style.transform = `translate(${clientX + 12}px, ${clientY + 12}px)`
      const now = placeBelow(clientX, clientY)
      if (now !== below) setOver(now)
      below = now
    }, options)
    window.addEventListener("pointerup", ({ clientX, clientY, pointerId }) => {
      if (pointerId !== start.pointerId) return
      const dropped = active
      end()
      if (!dropped) return
      swallowClick()
      const tile = placeBelow(clientX, clientY)
      const onList = document.elementFromPoint(clientX, clientY)?.closest("[data-list]") !== null
      if (tile !== null) place.current(what, tile)
      else if (onList && what.from !== null) place.current(what, null)
    }, options)
    window.addEventListener("pointercancel", end, options)
    window.addEventListener("keydown", (event) => {
      if (event.key === "Escape") end()
    }, options)
    // A finger that drags must not scroll as well.
    window.addEventListener("touchmove", (event) => {
      if (active) event.preventDefault()
    }, { ...options, passive: false })
  }, [])

  return { picked, dragging, over, pick: setPicked, cancel, grip, ghost }
}
