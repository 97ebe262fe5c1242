/**
 * Digital zoom of what lies in a frame, by wheel, two fingers, drag and keys. It is drawn by the style of the picture alone: React
 * hears of it only when the scale changes.
 */
import { type RefObject, useCallback, useEffect, useRef, useState } from "react"
import { movedBy, unzoomed, type Zoom, zoomedAt } from "./zoom.ts"

interface Point {
  readonly x: number
  readonly y: number
}

const step = 1.25
const stride = 0.08

/** What a key does to the picture; null: it is not one of ours. */
const byKey = (zoom: Zoom, key: string): Zoom | null => {
  const moves: Readonly<Record<string, readonly [number, number]>> = {
    ArrowLeft: [stride, 0],
    ArrowRight: [-stride, 0],
    ArrowUp: [0, stride],
    ArrowDown: [0, -stride],
  }
  if (key === "+" || key === "=") return zoomedAt(zoom, step, 0.5, 0.5)
  if (key === "-") return zoomedAt(zoom, 1 / step, 0.5, 0.5)
  if (key === "0") return unzoomed
  const move = moves[key]
  return move === undefined || zoom.scale === 1 ? null : movedBy(zoom, ...move)
}

export interface ZoomControl {
  readonly scale: number
  /** Makes it so many times as large, about its middle. */
  readonly by: (factor: number) => void
  readonly reset: () => void
}

export const useZoom = (
  frame: RefObject<HTMLElement | null>,
  picture: RefObject<HTMLElement | null>,
  enabled: boolean,
): ZoomControl => {
  const zoom = useRef(unzoomed)
  const [scale, setScale] = useState(1)

  const draw = useCallback((next: Zoom) => {
    zoom.current = next
    const style = picture.current?.style
    if (style !== undefined) {
      style.transform = next.scale === 1 ? "" : `translate(${next.x * 100}%, ${next.y * 100}%) scale(${next.scale})`
    }
    setScale(Math.round(next.scale * 10) / 10)
  }, [picture])

  useEffect(() => {
    const element = frame.current
    if (!enabled || element === null) return
    const abort = new AbortController()
    const options = { signal: abort.signal }
    const fingers = new Map<number, Point>()
    const share = ({ clientX, clientY }: { readonly clientX: number; readonly clientY: number }): Point => {
      const box = element.getBoundingClientRect()
      return { x: (clientX - box.left) / box.width, y: (clientY - box.top) / box.height }
    }
    const onControl = (target: EventTarget | null) => target instanceof Element && target.closest("button, a") !== null
    element.addEventListener("wheel", (event) => {
      event.preventDefault()
      const { x, y } = share(event)
      draw(zoomedAt(zoom.current, Math.exp(-event.deltaY / 400), x, y))
    }, { ...options, passive: false })
    element.addEventListener("pointerdown", (event) => {
      if (event.button !== 0 || onControl(event.target)) return
      fingers.set(event.pointerId, share(event))
      if (zoom.current.scale > 1 || fingers.size > 1) element.setPointerCapture(event.pointerId)
    }, options)
    element.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId)
      if (before === undefined) return
      const now = share(event)
      const other = [...fingers].find(([id]) => id !== event.pointerId)?.[1]
      fingers.set(event.pointerId, now)
      if (other === undefined) return draw(movedBy(zoom.current, now.x - before.x, now.y - before.y))
      const apart = (one: Point) => Math.max(0.01, Math.hypot(one.x - other.x, one.y - other.y))
      const middle = { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 }
      const grown = zoomedAt(zoom.current, apart(now) / apart(before), middle.x, middle.y)
      draw(movedBy(grown, (now.x - before.x) / 2, (now.y - before.y) / 2))
    }, options)
    const lift = ({ pointerId }: PointerEvent) => void fingers.delete(pointerId)
    element.addEventListener("pointerup", lift, options)
    element.addEventListener("pointercancel", lift, options)
    element.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return
      const next = byKey(zoom.current, event.key)
      if (next === null) return
      event.preventDefault()
      draw(next)
    }, options)
    return () => {
      abort.abort()
      draw(unzoomed)
    }
  }, [enabled, frame, draw])

  const by = useCallback((factor: number) => draw(zoomedAt(zoom.current, factor, 0.5, 0.5)), [draw])
  const reset = useCallback(() => draw(unzoomed), [draw])
  return { scale, by, reset }
}
